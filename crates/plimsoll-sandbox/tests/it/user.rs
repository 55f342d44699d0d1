//! The other tests, as an ordinary user: Landlock and seccomp hold whom they hold, but root starts with rights that a
//! user does not have, and a user owns files that root only may change.

use plimsoll_testkit::also_as_user;

#[test]
fn the_sandbox_holds_an_ordinary_user_too() {
    let modules = ["descriptors::", "network::", "processes::", "reads::", "swaps::", "writes::"];
    println!("{}", also_as_user(&modules).unwrap_or_else(|failures| panic!("{failures}")));
}
