//! How deep a JSON text is nested.

/// Maximum nesting of an event. JSON parsers stop at 128, and surfaces nest the event in a frame.
pub(crate) const MAX_NESTING: usize = 100;

/// Returns the maximum nesting depth of a JSON text.
pub(crate) fn nesting(json: &str) -> usize {
    let (mut depth, mut deepest) = (0_usize, 0);
    let mut bytes = json.bytes();
    while let Some(byte) = bytes.next() {
        match byte {
            b'[' | b'{' => {
                depth += 1;
                deepest = deepest.max(depth);
            }
            b']' | b'}' => depth = depth.saturating_sub(1),
            b'"' => {
                while let Some(byte) = bytes.next() {
                    match byte {
                        b'"' => break,
                        b'\\' => drop(bytes.next()),
                        _ => {}
                    }
                }
            }
            _ => {}
        }
    }
    deepest
}
