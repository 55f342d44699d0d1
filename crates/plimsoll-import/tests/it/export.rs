//! Stored sessions, written in other formats.

use plimsoll_formats::{Format, write_counting};
use plimsoll_import::{Exported, Extent, ImportError, OnDamage, export, transcript};
use plimsoll_store::Store;

use crate::{Claude, fresh, import};

const FORMATS: [Format; 4] =
    [Format::OpencodeExport, Format::OpencodeMessages, Format::OpenaiChat, Format::AnthropicMessages];

fn session() -> Claude {
    (0..30).fold(Claude::default(), |claude, turn| {
        let (first, second, call) = (format!("a{turn}"), format!("b{turn}"), format!("call_{turn}"));
        let claude = claude.user(&format!("Prompt {turn}")).calls(&first, &call);
        claude.result(&call, &format!("output {turn} ").repeat(50)).says(&second, "Seen.")
    })
}

fn exported(store: &dyn Store, to: Format, on_damage: OnDamage) -> Result<(String, Exported), ImportError> {
    let session = store.session(&crate::SESSION.into())?;
    let mut bytes = Vec::new();
    let exported = export(store, &session, to, on_damage, &mut bytes)?;
    Ok((String::from_utf8(bytes).unwrap(), exported))
}

#[test]
fn an_export_equals_the_conversion_of_its_whole_transcript() {
    let store = fresh();
    import(&*store, &session().text()).unwrap();
    let session = store.session(&crate::SESSION.into()).unwrap();
    let whole = transcript(&*store, &session, Extent::Whole).unwrap();
    for format in FORMATS {
        let (written, lost) = write_counting(format, &whole.info, &whole.messages).unwrap();
        for on_damage in [OnDamage::Refuse, OnDamage::Salvage] {
            let (text, exported) = exported(&*store, format, on_damage).unwrap();
            assert_eq!(text, written.to_string(), "{format}");
            let list = written.as_array().or_else(|| written["messages"].as_array()).unwrap();
            let expected =
                Exported { written: list.len(), messages: 90, lost: lost.clone(), damage: Vec::new() };
            assert_eq!(exported, expected, "{format}");
        }
    }
}

#[test]
fn a_damaged_session_is_exported_only_as_a_salvage() {
    let store = fresh();
    import(&*store, &session().text()).unwrap();
    let database = rusqlite::Connection::open(store.directory.path().join("plimsoll.db")).unwrap();
    database.execute("UPDATE part SET text = 'forged' WHERE text = 'Prompt 7'", []).unwrap();
    for format in FORMATS {
        let refused = exported(&*store, format, OnDamage::Refuse);
        assert!(matches!(&refused, Err(ImportError::Damaged { damage }) if damage.len() == 1), "{refused:?}");
        let (text, exported) = exported(&*store, format, OnDamage::Salvage).unwrap();
        assert!(text.contains("forged") && text.contains("Prompt 8"), "{text}");
        assert_eq!(exported.damage.len(), 1);
    }
}
