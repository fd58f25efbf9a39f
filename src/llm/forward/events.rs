//! Cuts a stream of server-sent events into its events without changing a byte.

/// Events that arrive in pieces.
#[derive(Debug, Default)]
pub struct EventCutter {
    bytes: Vec<u8>,
    /// How much of it is known to contain no end of an event.
    searched: usize,
}

impl EventCutter {
    pub fn push(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// Bytes of the event that is not complete yet.
    pub fn pending(&self) -> usize {
        self.bytes.len()
    }

    /// The next complete event, with the empty line that ends it.
    pub fn next(&mut self) -> Option<Vec<u8>> {
        let mut at = self.searched;
        while let Some(found) = self.bytes[at..].iter().position(|byte| *byte == b'\n') {
            let line_end = at + found + 1;
            let rest = &self.bytes[line_end..];
            let empty = if rest.starts_with(b"\n") {
                1
            } else if rest.starts_with(b"\r\n") {
                2
            } else {
                0
            };

            if empty > 0 {
                self.searched = 0;
                return Some(self.bytes.drain(..line_end + empty).collect());
            }

            // Whether the next line is empty is not known yet.
            if rest.is_empty() || rest == b"\r" {
                self.searched = at + found;
                return None;
            }

            at = line_end;
        }

        self.searched = self.bytes.len();
        None
    }

    /// What came after the last complete event.
    pub fn rest(&mut self) -> Vec<u8> {
        self.searched = 0;
        std::mem::take(&mut self.bytes)
    }
}

/// The data of an event; `None` for a comment.
pub fn data_of(event: &[u8]) -> Option<String> {
    let text = String::from_utf8_lossy(event);
    let lines = text.lines().filter_map(|line| line.strip_prefix("data:"));
    let lines: Vec<&str> = lines
        .map(|line| line.strip_prefix(' ').unwrap_or(line))
        .collect();
    (!lines.is_empty()).then(|| lines.join("\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_way_to_cut_a_stream_gives_the_same_events() {
        let stream = b"data: 1\n\n: comment\n\nevent: a\r\ndata: 2\r\n\r\ndata: [DONE]\n\nrest";
        let whole = {
            let mut cutter = EventCutter::default();
            cutter.push(stream);
            let mut events = Vec::new();
            while let Some(event) = cutter.next() {
                events.push(event);
            }
            events.push(cutter.rest());
            events
        };
        assert_eq!(whole.len(), 5);
        assert_eq!(whole.concat(), stream);
        assert_eq!(data_of(&whole[2]).as_deref(), Some("2"));
        assert_eq!(data_of(&whole[1]), None);

        for size in 1..stream.len() {
            let mut cutter = EventCutter::default();
            let mut events = Vec::new();
            for piece in stream.chunks(size) {
                cutter.push(piece);
                while let Some(event) = cutter.next() {
                    events.push(event);
                }
            }
            events.push(cutter.rest());
            assert_eq!(events, whole, "in pieces of {size} bytes");
        }
    }
}
