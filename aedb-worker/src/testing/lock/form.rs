//! The form of a type as serde reads it: one line for each value that a payload can hold.
//!
//! A type is asked to read itself from a [`Tracer`], which notes what it asks for and then stops it. Where the type asks for one of
//! several things (a field, a variant), each run takes one, and the next run the next, until all were taken. So no value is ever
//! made, and a type that checks its values, such as a date, does not get in the way. What cannot be seen is noted as `any`: untagged
//! and internally tagged enums, and flattened fields.

use serde::de::value::StrDeserializer;
use serde::de::{self, DeserializeOwned, DeserializeSeed, Deserializer, Visitor};

use super::filler::Filler;
use super::stop::Stop;

/// The most lines of one type.
const LINES: usize = 10_000;

/// The form of a type.
pub(crate) fn form<T: DeserializeOwned>() -> Vec<String> {
    let (mut lines, mut plan) = (Vec::new(), Vec::new());
    loop {
        let mut run = Run { plan, taken: 0, options: Vec::new(), path: String::new(), leaf: None, inside: Vec::new() };
        let _ = T::deserialize(Tracer(&mut run)); // it always stops; what counts is what was noted
        let leaf = run.leaf.take().unwrap_or("any");
        lines.push(if run.path.is_empty() {
            leaf.to_owned()
        } else {
            format!("{}: {leaf}", run.path.trim_start_matches('.'))
        });
        match run.next_plan().filter(|_| lines.len() < LINES) {
            Some(next) => plan = next,
            None => return lines,
        }
    }
}

/// One way through a type.
struct Run {
    /// Which option to take where there are several, in the order in which they come.
    plan: Vec<usize>,
    taken: usize,
    /// How many there were.
    options: Vec<usize>,
    path: String,
    leaf: Option<&'static str>,
    /// The structs and enums on the way, to know one that is inside of itself.
    inside: Vec<(&'static str, &'static [&'static str])>,
}

impl Run {
    fn choose(&mut self, options: usize) -> usize {
        let choice = self.plan.get(self.taken).copied().unwrap_or(0);
        self.options.push(options);
        self.taken += 1;
        choice
    }

    /// The plan for the next way, if there is one: the last choice that can go on does.
    fn next_plan(mut self) -> Option<Vec<usize>> {
        self.plan.resize(self.options.len(), 0);
        while let (Some(choice), Some(options)) = (self.plan.pop(), self.options.pop()) {
            if choice + 1 < options {
                self.plan.push(choice + 1);
                return Some(self.plan);
            }
        }
        None
    }

    fn ends<T>(&mut self, leaf: &'static str) -> Result<T, Stop> {
        self.leaf.get_or_insert(leaf);
        Err(Stop)
    }

    /// Goes into a type with these fields or variants, unless it is in it already.
    fn enter(&mut self, name: &'static str, parts: &'static [&'static str]) -> Result<(), Stop> {
        let this = (name, parts);
        if self.inside.contains(&this) {
            return self.ends("the same again");
        }
        self.inside.push(this);
        Ok(())
    }
}

struct Tracer<'a>(&'a mut Run);

macro_rules! leaves {
    ($($method:ident $leaf:literal)*) => {
        $(fn $method<V: Visitor<'de>>(self, _: V) -> Result<V::Value, Stop> {
            self.0.ends($leaf)
        })*
    };
}

impl<'de> Deserializer<'de> for Tracer<'_> {
    type Error = Stop;

    leaves! {
        deserialize_any "any" deserialize_ignored_any "any" deserialize_bool "bool" deserialize_char "text"
        deserialize_i8 "i8" deserialize_i16 "i16" deserialize_i32 "i32" deserialize_i64 "i64" deserialize_i128 "i128"
        deserialize_u8 "u8" deserialize_u16 "u16" deserialize_u32 "u32" deserialize_u64 "u64" deserialize_u128 "u128"
        deserialize_f32 "f32" deserialize_f64 "f64" deserialize_str "text" deserialize_string "text"
        deserialize_bytes "bytes" deserialize_byte_buf "bytes" deserialize_unit "null" deserialize_identifier "text"
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Stop> {
        self.0.path.push('?');
        visitor.visit_some(self)
    }

    fn deserialize_unit_struct<V: Visitor<'de>>(self, _: &'static str, _: V) -> Result<V::Value, Stop> {
        self.0.ends("null")
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(self, name: &'static str, visitor: V) -> Result<V::Value, Stop> {
        self.0.enter(name, &[])?;
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Stop> {
        self.0.path.push_str("[]");
        visitor.visit_seq(Elements { run: self.0, before: 0 })
    }

    fn deserialize_tuple<V: Visitor<'de>>(self, len: usize, visitor: V) -> Result<V::Value, Stop> {
        if len == 0 {
            return self.0.ends("[]");
        }
        let before = self.0.choose(len);
        self.0.path.push_str(&format!("[{before}]"));
        visitor.visit_seq(Elements { run: self.0, before })
    }

    fn deserialize_tuple_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        len: usize,
        visitor: V,
    ) -> Result<V::Value, Stop> {
        self.0.enter(name, &[])?;
        self.deserialize_tuple(len, visitor)
    }

    fn deserialize_map<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Stop> {
        self.0.path.push_str("{}");
        visitor.visit_map(Entry { run: self.0, key: None })
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Stop> {
        if fields.is_empty() {
            return self.0.ends("{}");
        }
        self.0.enter(name, fields)?;
        let key = fields.get(self.0.choose(fields.len())).copied();
        self.0.path.push_str(&format!(".{}", key.unwrap_or_default()));
        visitor.visit_map(Entry { run: self.0, key })
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        name: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Stop> {
        self.0.enter(name, variants)?;
        let variant = variants.get(self.0.choose(variants.len())).copied().unwrap_or_default();
        self.0.path.push_str(&format!(".{variant}"));
        visitor.visit_enum(Variant { run: self.0, variant })
    }
}

/// The elements of a list or tuple: those before the one that is looked at are made up.
struct Elements<'a> {
    run: &'a mut Run,
    before: usize,
}

impl<'de> de::SeqAccess<'de> for Elements<'_> {
    type Error = Stop;

    fn next_element_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<Option<T::Value>, Stop> {
        match self.before.checked_sub(1) {
            Some(before) => {
                self.before = before;
                seed.deserialize(Filler::new()).map(Some)
            }
            None => seed.deserialize(Tracer(self.run)).map(Some),
        }
    }
}

/// One field of a struct, or one entry of a map with a key that is made up.
struct Entry<'a> {
    run: &'a mut Run,
    key: Option<&'static str>,
}

impl<'de> de::MapAccess<'de> for Entry<'_> {
    type Error = Stop;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, Stop> {
        match self.key {
            Some(key) => seed.deserialize(StrDeserializer::<Stop>::new(key)),
            None => seed.deserialize(Filler::new()),
        }
        .map(Some)
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, Stop> {
        seed.deserialize(Tracer(self.run))
    }
}

struct Variant<'a> {
    run: &'a mut Run,
    variant: &'static str,
}

impl<'de, 'a> de::EnumAccess<'de> for Variant<'a> {
    type Error = Stop;
    type Variant = Tracer<'a>;

    fn variant_seed<V: DeserializeSeed<'de>>(self, seed: V) -> Result<(V::Value, Tracer<'a>), Stop> {
        Ok((seed.deserialize(StrDeserializer::<Stop>::new(self.variant))?, Tracer(self.run)))
    }
}

impl<'de> de::VariantAccess<'de> for Tracer<'_> {
    type Error = Stop;

    fn unit_variant(self) -> Result<(), Stop> {
        self.0.ends("name alone")
    }

    fn newtype_variant_seed<T: DeserializeSeed<'de>>(self, seed: T) -> Result<T::Value, Stop> {
        seed.deserialize(self)
    }

    fn tuple_variant<V: Visitor<'de>>(self, len: usize, visitor: V) -> Result<V::Value, Stop> {
        self.deserialize_tuple(len, visitor)
    }

    fn struct_variant<V: Visitor<'de>>(self, fields: &'static [&'static str], visitor: V) -> Result<V::Value, Stop> {
        self.deserialize_struct("", fields, visitor)
    }
}
