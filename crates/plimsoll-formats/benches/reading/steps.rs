//! Content of the generated sessions.

/// Bytes of a session.
const SIZE: usize = 24 << 20;

/// Generates text as in sessions: prose, code, logs, some of it quoted, some not English.
struct Words(u64);

impl Words {
    fn number(&mut self, below: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % below
    }

    fn text(&mut self, bytes: usize) -> String {
        const PIECES: [&str; 16] = [
            "the build fails because of a missing import ",
            "let mut total = 0;\n",
            "    for item in &items {\n",
            "        total += item.price;\n    }\n",
            "error[E0308]: mismatched types\n",
            "  --> src/main.rs:42:17\n",
            "expected `&str`, found `String`\n\n",
            "{\"name\": \"example\", \"version\": \"1.0\"}\n",
            "I will look at the file first, then run the tests. ",
            "drwxr-xr-x 2 user user 4096 Jan  1 00:00 target\n",
            "12:04:55.120 INFO  server listening on 127.0.0.1:8080\n",
            "Größe und Gewicht, 日本語のテキスト, ",
            "#[derive(Clone, Debug, PartialEq)]\npub struct Thing {\n\tname: String,\n}\n",
            "test result: ok. 71 passed; 0 failed; 2 ignored\n",
            "https://example.org/some/path?query=value ",
            "C:\\Users\\somebody\\project\\file.txt\n",
        ];
        let mut text = String::with_capacity(bytes + 80);
        while text.len() < bytes {
            text.push_str(PIECES[self.number(PIECES.len())]);
        }
        text
    }

    /// Returns an output: most are short, some long, a few very long.
    fn output(&mut self) -> String {
        let bytes = match self.number(10) {
            0 => 20_000 + self.number(30_000),
            1..=3 => 3_000 + self.number(5_000),
            _ => 100 + self.number(900),
        };
        self.text(bytes)
    }
}

/// A step of a session: text, a tool call and its result.
pub(crate) struct Step {
    pub(crate) number: usize,
    pub(crate) prompt: Option<String>,
    pub(crate) thought: String,
    pub(crate) said: String,
    pub(crate) command: String,
    pub(crate) output: String,
}

/// Generates steps until `write` has returned the wanted number of bytes.
pub(crate) fn steps(mut write: impl FnMut(Step) -> usize) {
    let mut words = Words(7);
    let mut size = 0;
    for number in 0.. {
        let prompt = number % 8 == 0;
        let step = Step {
            number,
            prompt: prompt.then(|| words.text(300)),
            thought: words.text(400),
            said: words.text(200),
            command: words.text(80),
            output: words.output(),
        };
        size += write(step);
        if size > SIZE {
            return;
        }
    }
}
