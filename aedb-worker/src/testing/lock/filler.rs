//! Values that are made up: what comes before the element that is looked at.

use serde::de::value::StrDeserializer;
use serde::de::{self, DeserializeSeed, Deserializer, Visitor};

use super::stop::Stop;

/// Gives each type the least that it takes: zero, nothing, an empty text or list, the first variant.
pub(super) struct Filler {
    /// How deep it may still go: a first variant may hold itself.
    depth: u8,
}

impl Filler {
    pub(super) fn new() -> Self {
        Self { depth: 32 }
    }

    fn deeper(self) -> Result<Self, Stop> {
        Ok(Self { depth: self.depth.checked_sub(1).ok_or(Stop)? })
    }
}

macro_rules! fill {
    ($($method:ident $visit:ident($($value:expr)?))*) => {
        $(fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Stop> {
            visitor.$visit($($value)?)
        })*
    };
}

impl<'de> Deserializer<'de> for Filler {
    type Error = Stop;

    fill! {
        deserialize_any visit_unit() deserialize_ignored_any visit_unit() deserialize_bool visit_bool(false)
        deserialize_i8 visit_i8(0) deserialize_i16 visit_i16(0) deserialize_i32 visit_i32(0) deserialize_i64 visit_i64(0)
        deserialize_i128 visit_i128(0) deserialize_u8 visit_u8(0) deserialize_u16 visit_u16(0) deserialize_u32 visit_u32(0)
        deserialize_u64 visit_u64(0) deserialize_u128 visit_u128(0) deserialize_f32 visit_f32(0.0)
        deserialize_f64 visit_f64(0.0) deserialize_char visit_char('a') deserialize_str visit_str("")
        deserialize_string visit_str("") deserialize_identifier visit_str("") deserialize_bytes visit_bytes(b"")
        deserialize_byte_buf visit_bytes(b"") deserialize_unit visit_unit() deserialize_option visit_none()
        deserialize_seq visit_seq(Fill::NOTHING) deserialize_map visit_map(Fill::NOTHING)
    }

    fn deserialize_unit_struct<V: Visitor<'de>>(self, _: &'static str, visitor: V) -> Result<V::Value, Stop> {
        visitor.visit_unit()
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(self, _: &'static str, visitor: V) -> Result<V::Value, Stop> {
        visitor.visit_newtype_struct(self.deeper()?)
    }

    fn deserialize_tuple<V: Visitor<'de>>(self, len: usize, visitor: V) -> Result<V::Value, Stop> {
        visitor.visit_seq(Fill { parts: len, fields: &[], depth: self.deeper()?.depth })
    }

    fn deserialize_tuple_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        len: usize,
        visitor: V,
    ) -> Result<V::Value, Stop> {
        self.deserialize_tuple(len, visitor)
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Stop> {
        visitor.visit_map(Fill { parts: 0, fields, depth: self.deeper()?.depth })
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Stop> {
        visitor.visit_enum(First(variants.first().copied().unwrap_or_default(), self.deeper()?))
    }
}

/// So many elements, or these fields.
struct Fill {
    parts: usize,
    fields: &'static [&'static str],
    depth: u8,
}

impl Fill {
    const NOTHING: Self = Self { parts: 0, fields: &[], depth: 0 };
}

impl<'de> de::SeqAccess<'de> for Fill {
    type Error = Stop;

    fn next_element_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<Option<T::Value>, Stop> {
        let Some(parts) = self.parts.checked_sub(1) else { return Ok(None) };
        self.parts = parts;
        seed.deserialize(Filler { depth: self.depth }).map(Some)
    }
}

impl<'de> de::MapAccess<'de> for Fill {
    type Error = Stop;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, Stop> {
        let Some((field, rest)) = self.fields.split_first() else { return Ok(None) };
        self.fields = rest;
        seed.deserialize(StrDeserializer::<Stop>::new(field)).map(Some)
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, Stop> {
        seed.deserialize(Filler { depth: self.depth })
    }
}

/// A variant by its name.
struct First(&'static str, Filler);

impl<'de> de::EnumAccess<'de> for First {
    type Error = Stop;
    type Variant = Filler;

    fn variant_seed<V: DeserializeSeed<'de>>(self, seed: V) -> Result<(V::Value, Filler), Stop> {
        Ok((seed.deserialize(StrDeserializer::<Stop>::new(self.0))?, self.1))
    }
}

impl<'de> de::VariantAccess<'de> for Filler {
    type Error = Stop;

    fn unit_variant(self) -> Result<(), Stop> {
        Ok(())
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
