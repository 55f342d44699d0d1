//! Restrictions of commands, hooks, servers and tools, as an ordinary user.

use plimsoll_testkit::also_as_user;

#[test]
fn hooks_servers_and_tools_hold_an_ordinary_user_too() {
    let modules = ["attack::", "attacks::", "beside::", "closed::", "sandbox::"];
    println!("{}", also_as_user(&modules).unwrap_or_else(|failures| panic!("{failures}")));
}
