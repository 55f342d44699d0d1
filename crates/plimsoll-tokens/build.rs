//! Writes the hash index of each vocabulary; `src/bpe/vocabulary.rs` describes the format.

#[path = "src/bpe/hash.rs"]
mod hash;

use std::error::Error;
use std::path::Path;

const OFFSET_BITS: u32 = 21;
const MAX_LENGTH: usize = 128;

fn main() -> Result<(), Box<dyn Error>> {
    for name in ["o200k", "cl100k"] {
        let source = format!("data/{name}.tokens");
        println!("cargo::rerun-if-changed={source}");
        let index = index(&std::fs::read(&source)?).map_err(|problem| format!("{source}: {problem}"))?;
        let bytes: Vec<u8> = index.iter().flat_map(|slot| slot.to_le_bytes()).collect();
        let directory = std::env::var("OUT_DIR")?;
        std::fs::write(Path::new(&directory).join(format!("{name}.index")), bytes)?;
    }
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=src/bpe/hash.rs");
    Ok(())
}

fn index(tokens: &[u8]) -> Result<Vec<u32>, String> {
    let mut offsets = Vec::new();
    let mut at = 0;
    while let Some(length) = tokens.get(at).copied().map(usize::from) {
        let token = tokens.get(at + 1..at + 1 + length).ok_or("cut short")?;
        if token.is_empty() || length > MAX_LENGTH {
            return Err(format!("token of {length} bytes"));
        }
        offsets.push((at as u32 + 1, token));
        at += 1 + length;
    }
    if at >= 1 << OFFSET_BITS {
        return Err(format!("{at} bytes do not fit into {OFFSET_BITS} bits"));
    }
    // At most half full: most lookups are of pairs that are not tokens, and end at the first free slot.
    let mut slots = vec![0; (offsets.len() * 2).next_power_of_two()];
    let mask = slots.len() - 1;
    for (offset, token) in offsets {
        let hash = hash::hash(token);
        let mut slot = (hash >> 40) as usize & mask;
        while slots[slot] != 0 {
            slot = (slot + 1) & mask;
        }
        slots[slot] = ((hash as u32) >> OFFSET_BITS) << OFFSET_BITS | offset;
    }
    Ok(slots)
}
