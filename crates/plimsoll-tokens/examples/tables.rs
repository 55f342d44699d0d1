//! Writes `data/`: the tokens of the vocabularies from `bpe-openai`, and the character classes from `regex`. `just
//! tables` runs it; the tests compare the result with both.

use std::error::Error;
use std::path::Path;

use bpe_openai::Tokenizer;
use regex::Regex;

fn main() -> Result<(), Box<dyn Error>> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("data");
    std::fs::write(directory.join("o200k.tokens"), tokens(bpe_openai::o200k_base())?)?;
    std::fs::write(directory.join("cl100k.tokens"), tokens(bpe_openai::cl100k_base())?)?;
    std::fs::write(directory.join("classes.bin"), classes()?)?;
    Ok(())
}

/// Each token as one byte of length and its bytes, in rank order.
fn tokens(tokenizer: &Tokenizer) -> Result<Vec<u8>, Box<dyn Error>> {
    let mut table = Vec::new();
    for token in 0..u32::try_from(tokenizer.bpe.num_tokens())? {
        let bytes = tokenizer.bpe.token_bytes(token);
        table.push(u8::try_from(bytes.len())?);
        table.extend_from_slice(bytes);
    }
    Ok(table)
}

/// A two-stage table, in the order of `Class`.
fn classes() -> Result<Vec<u8>, Box<dyn Error>> {
    let patterns =
        [r"[\p{Lu}\p{Lt}]", r"\p{Ll}", r"[\p{Lm}\p{Lo}]", r"\p{M}", r"\p{N}", r"[\s--\r\n]", r"[\r\n]"];
    let patterns: Vec<Regex> =
        patterns.iter().map(|pattern| Regex::new(pattern)).collect::<Result<_, _>>()?;
    let class = |point: u32| {
        let Some(c) = char::from_u32(point) else { return 0 };
        let text = c.to_string();
        patterns.iter().position(|pattern| pattern.is_match(&text)).map_or(0, |at| at as u8 + 1)
    };
    let (mut index, mut rows) = (Vec::new(), Vec::<Vec<u8>>::new());
    for block in 0..0x11_0000 / 256 {
        let row: Vec<u8> = (0..256).map(|at| class(block * 256 + at)).collect();
        let known = rows.iter().position(|known| *known == row);
        index.push(u8::try_from(known.unwrap_or(rows.len()))?);
        if known.is_none() {
            rows.push(row);
        }
    }
    index.extend(rows.concat());
    Ok(index)
}
