//! How each type of the core looks on the wire, and the way back.
//!
//! The core serialises nothing, so every type that reaches a record has a
//! mirror here. Going out can't fail; coming in checks everything that the
//! core's own constructors check, because bytes may have been written by
//! anybody.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use rategov_core::action::outcome::Certainty;
use rategov_core::cost::Dimension;
use rategov_core::event::Found;
use rategov_core::id::{
    Account, ActionId, Agent, Credential, Endpoint, EscalationId, Fingerprint, Operator, Provider,
    Scope, Task,
};
use rategov_core::time::{Moment, Span};
use rategov_core::word::{Cause, Choice, Class, Mode, Outcome, Priority, State, Trigger};
use serde::de::{DeserializeOwned, Error as _, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::CodecError;

/// A core type with a mirror that can be serialised.
pub(super) trait Wire: Sized {
    /// The mirror.
    type Form: Serialize + DeserializeOwned;

    /// Into the mirror.
    fn to_form(&self) -> Self::Form;

    /// Out of the mirror, checked.
    fn from_form(form: Self::Form) -> Result<Self, CodecError>;
}

macro_rules! as_itself {
    ($($ty:ty)*) => {$(
        impl Wire for $ty {
            type Form = $ty;
            fn to_form(&self) -> $ty {
                self.clone()
            }
            fn from_form(form: $ty) -> Result<$ty, CodecError> {
                Ok(form)
            }
        }
    )*};
}

as_itself! { bool u16 u32 u64 String }

macro_rules! as_micros {
    ($($ty:ident)*) => {$(
        impl Wire for $ty {
            type Form = u64;
            fn to_form(&self) -> u64 {
                self.as_micros()
            }
            fn from_form(form: u64) -> Result<$ty, CodecError> {
                Ok($ty::from_micros(form))
            }
        }
    )*};
}

as_micros! { Moment Span }

/// A name on the wire: shared with the core on the way out, checked on the way in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Name<T> {
    Known(T),
    Read(String),
}

impl<T: Named> Serialize for Name<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(match self {
            Name::Known(name) => name.text(),
            Name::Read(text) => text,
        })
    }
}

impl<'de, T> Deserialize<'de> for Name<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Name<T>, D::Error> {
        String::deserialize(deserializer).map(Name::Read)
    }
}

/// A name of the core, which is cheap to clone.
pub(super) trait Named: Clone {
    fn text(&self) -> &str;
}

macro_rules! as_name {
    ($($ty:ident)*) => {$(
        impl Named for $ty {
            fn text(&self) -> &str {
                self.as_str()
            }
        }

        impl Wire for $ty {
            type Form = Name<$ty>;
            fn to_form(&self) -> Name<$ty> {
                Name::Known(self.clone())
            }
            fn from_form(form: Name<$ty>) -> Result<$ty, CodecError> {
                match form {
                    Name::Known(name) => Ok(name),
                    Name::Read(text) => {
                        $ty::new(&text).map_err(|_| CodecError::Value(stringify!($ty)))
                    }
                }
            }
        }
    )*};
}

as_name! { Provider Account Credential Agent Task Endpoint Scope Operator }

macro_rules! as_word {
    ($($ty:ident)*) => {$(
        impl Wire for $ty {
            type Form = Cow<'static, str>;
            fn to_form(&self) -> Cow<'static, str> {
                Cow::Borrowed(self.word())
            }
            fn from_form(form: Cow<'static, str>) -> Result<$ty, CodecError> {
                parse_word(&form).ok_or(CodecError::Value(stringify!($ty)))
            }
        }
    )*};
}

as_word! { Cause Choice Class Dimension Mode Outcome Priority State Trigger Certainty Found }

/// A closed vocabulary that can be read back from its words.
pub(crate) trait Word: Copy + 'static {
    /// All of it.
    const WORDS: &'static [Self];
    /// One word of it.
    fn text(self) -> &'static str;
}

/// The value of a word.
pub(crate) fn parse_word<T: Word>(text: &str) -> Option<T> {
    T::WORDS.iter().copied().find(|value| value.text() == text)
}

macro_rules! words {
    ($($ty:ident: $all:expr;)*) => {$(
        impl Word for $ty {
            const WORDS: &'static [$ty] = $all;
            fn text(self) -> &'static str {
                self.word()
            }
        }
    )*};
}

words! {
    Cause: Cause::ALL;
    Choice: Choice::ALL;
    Class: Class::ALL;
    Dimension: &Dimension::AMOUNTS;
    Mode: Mode::ALL;
    Outcome: Outcome::ALL;
    Priority: Priority::ALL;
    State: State::ALL;
    Trigger: Trigger::ALL;
    Certainty: &[
        Certainty::NotSent,
        Certainty::NotProcessed,
        Certainty::Definite,
        Certainty::CommittedBodyLost,
        Certainty::Unknown,
    ];
    Found: &[Found::Done, Found::Failed, Found::Running, Found::Nothing, Found::NoAnswer];
}

/// A byte string of fixed length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Octets<const N: usize>([u8; N]);

impl<const N: usize> Serialize for Octets<N> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_bytes(&self.0)
    }
}

impl<'de, const N: usize> Deserialize<'de> for Octets<N> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Octets<N>, D::Error> {
        struct Exactly<const N: usize>;
        impl<const N: usize> Visitor<'_> for Exactly<N> {
            type Value = Octets<N>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{N} bytes")
            }
            fn visit_bytes<E: serde::de::Error>(self, bytes: &[u8]) -> Result<Octets<N>, E> {
                let octets = bytes
                    .try_into()
                    .map_err(|_| E::invalid_length(bytes.len(), &self))?;
                Ok(Octets(octets))
            }
        }
        deserializer
            .deserialize_bytes(Exactly::<N>)
            .map_err(D::Error::custom)
    }
}

macro_rules! as_octets {
    ($($ty:ty, $len:literal, $out:expr, $back:expr;)*) => {$(
        impl Wire for $ty {
            type Form = Octets<$len>;
            fn to_form(&self) -> Octets<$len> {
                Octets($out(self))
            }
            fn from_form(form: Octets<$len>) -> Result<$ty, CodecError> {
                Ok($back(form.0))
            }
        }
    )*};
}

as_octets! {
    [u8; 32], 32, |value: &[u8; 32]| *value, |octets| octets;
    Fingerprint, 16, |value: &Fingerprint| value.0, Fingerprint;
    ActionId, 16, |value: &ActionId| value.0.to_be_bytes(), |octets| ActionId(u128::from_be_bytes(octets));
    EscalationId, 16, |value: &EscalationId| value.0.to_be_bytes(), |octets| EscalationId(u128::from_be_bytes(octets));
}

impl<T: Wire> Wire for Option<T> {
    type Form = Option<T::Form>;
    fn to_form(&self) -> Self::Form {
        self.as_ref().map(T::to_form)
    }
    fn from_form(form: Self::Form) -> Result<Self, CodecError> {
        form.map(T::from_form).transpose()
    }
}

impl<T: Wire> Wire for Vec<T> {
    type Form = Vec<T::Form>;
    fn to_form(&self) -> Self::Form {
        self.iter().map(T::to_form).collect()
    }
    fn from_form(form: Self::Form) -> Result<Self, CodecError> {
        form.into_iter().map(T::from_form).collect()
    }
}

impl<T: Wire> Wire for Box<T> {
    type Form = Box<T::Form>;
    fn to_form(&self) -> Self::Form {
        Box::new(T::to_form(self))
    }
    fn from_form(form: Self::Form) -> Result<Self, CodecError> {
        T::from_form(*form).map(Box::new)
    }
}

impl<T: Wire> Wire for Arc<T> {
    type Form = Box<T::Form>;
    fn to_form(&self) -> Self::Form {
        Box::new(T::to_form(self))
    }
    fn from_form(form: Self::Form) -> Result<Self, CodecError> {
        T::from_form(*form).map(Arc::new)
    }
}

/// Declares the mirror of a struct: its fields, and both ways between them.
macro_rules! mirror_struct {
    ($core:ident as $form:ident { $($(#[$meta:meta])* $field:ident: $ty:ty,)* }) => {
        #[derive(Serialize, Deserialize)]
        #[serde(deny_unknown_fields)]
        pub(super) struct $form { $($(#[$meta])* $field: <$ty as Wire>::Form,)* }

        impl Wire for $core {
            type Form = $form;
            fn to_form(&self) -> $form {
                let $core { $($field,)* } = self;
                $form { $($field: <$ty as Wire>::to_form($field),)* }
            }
            fn from_form(form: $form) -> Result<$core, CodecError> {
                Ok($core { $($field: <$ty as Wire>::from_form(form.$field)?,)* })
            }
        }
    };
}

/// Declares the mirror of an enum, each variant under its word.
macro_rules! mirror_enum {
    ($core:ident as $form:ident {
        $($(#[$meta:meta])*
        $variant:ident $(($bind:ident: $inner:ty))? $({ $($(#[$field_meta:meta])* $field:ident: $ty:ty,)* })?,)*
    }) => {
        #[derive(Serialize, Deserialize)]
        #[serde(rename_all = "snake_case", deny_unknown_fields)]
        pub(super) enum $form {
            $($(#[$meta])* $variant $((<$inner as Wire>::Form))? $({ $($(#[$field_meta])* $field: <$ty as Wire>::Form,)* })?,)*
        }

        impl Wire for $core {
            type Form = $form;
            fn to_form(&self) -> $form {
                match self {$(
                    $core::$variant $(($bind))? $({ $($field,)* })? =>
                        $form::$variant
                            $((<$inner as Wire>::to_form($bind)))?
                            $({ $($field: <$ty as Wire>::to_form($field),)* })?,
                )*}
            }
            fn from_form(form: $form) -> Result<$core, CodecError> {
                Ok(match form {$(
                    $form::$variant $(($bind))? $({ $($field,)* })? =>
                        $core::$variant
                            $((<$inner as Wire>::from_form($bind)?))?
                            $({ $($field: <$ty as Wire>::from_form($field)?,)* })?,
                )*})
            }
        }
    };
}

pub(super) use {mirror_enum, mirror_struct};
