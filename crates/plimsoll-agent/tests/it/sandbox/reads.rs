//! Plimsoll's own store, which commands cannot open for reading.

use plimsoll_agent::{Guard, RunOverrides, parse_allow};
use plimsoll_testkit::server::Reply;
use serde_json::json;

use super::{can, has_python};
use crate::agents::Place;
use crate::support::run;

#[tokio::test]
async fn the_store_can_be_neither_read_nor_locked() {
    if !can(&[Guard::Reads]) || !has_python() {
        return;
    }
    let place = Place::new();
    place.write(".config/plimsoll/config.toml", "store = \"../../plimsoll.db\"\n");
    place.write(".local/share/plimsoll/trust.json", "{}");
    place.write("spill/blob", "an output");
    place.write("beside.txt", "open");
    place.write(
        "repository/part/try.py",
        r#"
import fcntl, os, sys
home = sys.argv[1]
for name in ["plimsoll.db", "plimsoll.db-wal", "plimsoll.db-shm", "spill/blob", ".local/share/plimsoll/trust.json"]:
    for path in [home + "/" + name, "/proc/self/root" + home + "/" + name]:
        try:
            file = os.open(path, os.O_RDONLY)
            fcntl.lockf(file, fcntl.LOCK_SH, 0, 0)
            print("LOCKED", name)
        except OSError as error:
            print("refused", name, error.errno)
print(open(home + "/beside.txt").read())
"#,
    );
    let allow = vec![parse_allow("bash", None).unwrap()];
    let agent = place.agent_in(&place.project, RunOverrides { allow, ..RunOverrides::default() }).unwrap();
    let talk = &mut agent.begin("").await.unwrap();
    let command = format!("python3 try.py {}", place.home.display());
    let call = Reply::new().call("call_1", "bash", json!({ "command": command }));
    place.server.push_all([call, Reply::new().text("Thanks.")]);
    run(talk, "Do it").await;
    let reply = place.server.last().unwrap().result("call_1").unwrap().to_owned();
    assert!(!reply.contains("LOCKED") && reply.matches("refused").count() == 10, "{reply}");
    assert!(!reply.contains(" 2\n"), "the files are there: {reply}");
    assert!(reply.trim().ends_with("open"), "{reply}");
}
