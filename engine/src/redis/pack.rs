//! How are the parts of a commit handed to its script? As MessagePack, in one argument.
//!
//! One argument with a dozen parts costs Redis less than a dozen arguments. Texts that Redis gets
//! to see again (scores, deadlines) travel as texts: a Lua number would be printed anew.

/// Writes MessagePack values, one after the other.
#[derive(Default)]
pub(super) struct Pack(Vec<u8>);

impl Pack {
    pub(super) fn into_bytes(self) -> Vec<u8> {
        self.0
    }

    /// The head of an array; its `items` follow.
    pub(super) fn array(&mut self, items: usize) -> &mut Self {
        match u32::try_from(items).expect("a commit has far fewer parts") {
            few @ 0..16 => self.0.push(0x90 | few as u8),
            many => {
                self.0.push(0xdd);
                self.0.extend(many.to_be_bytes());
            }
        }
        self
    }

    pub(super) fn bytes(&mut self, bytes: &[u8]) -> &mut Self {
        match u32::try_from(bytes.len()).expect("a record's parts are far shorter") {
            short @ 0..32 => self.0.push(0xa0 | short as u8),
            long => {
                self.0.push(0xdb);
                self.0.extend(long.to_be_bytes());
            }
        }
        self.0.extend(bytes);
        self
    }

    pub(super) fn text(&mut self, number: impl std::fmt::Display) -> &mut Self {
        self.bytes(number.to_string().as_bytes())
    }

    pub(super) fn int(&mut self, number: i64) -> &mut Self {
        match number {
            small @ 0..128 => self.0.push(small as u8),
            other => {
                self.0.push(0xd3);
                self.0.extend(other.to_be_bytes());
            }
        }
        self
    }

    /// Lua's `false`: absent. (`nil` would end a table.)
    pub(super) fn none(&mut self) -> &mut Self {
        self.0.push(0xc2);
        self
    }

    pub(super) fn maybe_int(&mut self, number: Option<i64>) -> &mut Self {
        match number {
            Some(number) => self.int(number),
            None => self.none(),
        }
    }

    pub(super) fn maybe_text(&mut self, number: Option<impl std::fmt::Display>) -> &mut Self {
        match number {
            Some(number) => self.text(number),
            None => self.none(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_have_the_bytes_of_the_messagepack_specification() {
        let mut pack = Pack::default();
        pack.array(4).int(5).int(-1).none().bytes(b"ab");
        let mut wanted = vec![0x94, 5, 0xd3];
        wanted.extend((-1_i64).to_be_bytes());
        wanted.extend([0xc2, 0xa2, b'a', b'b']);
        assert_eq!(pack.into_bytes(), wanted);

        let mut pack = Pack::default();
        pack.array(16).bytes(&[7; 32]);
        let bytes = pack.into_bytes();
        assert_eq!(bytes[..10], [0xdd, 0, 0, 0, 16, 0xdb, 0, 0, 0, 32]);
        assert_eq!(bytes.len(), 42);
    }
}
