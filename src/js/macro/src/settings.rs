//! Parsing of the settings in `#[js(...)]`.

use proc_macro2::TokenStream;
use quote::ToTokens;
use syn::parse::{Parse, ParseStream};
use syn::punctuated::Punctuated;
use syn::{parenthesized, Attribute, Expr, Ident, LitStr, Meta, Result, Token};

/// A parameter and its default value.
pub struct Default {
    pub name: Ident,
    pub value: Option<Expr>,
}

impl Parse for Default {
    fn parse(input: ParseStream) -> Result<Default> {
        let name = input.parse()?;
        let value =
            if input.parse::<Option<Token![=]>>()?.is_some() { Some(input.parse()?) } else { None };
        Ok(Default { name, value })
    }
}

/// The parsed settings.
#[derive(Default)]
pub struct Settings {
    pub skip: bool,
    pub getter: bool,
    pub keepdims: bool,
    pub required: bool,
    pub result: bool,
    pub name: Option<String>,
    pub returns: Option<String>,
    pub parts: Vec<String>,
    pub default: Vec<self::Default>,
    pub options: Vec<self::Default>,
    pub spread: Vec<self::Default>,
    pub example: Option<String>,
    pub only: Vec<String>,
}

impl Settings {
    /// Parses the settings in the parentheses.
    pub fn new(tokens: TokenStream) -> Result<Settings> {
        let mut settings = Settings::default();
        settings.add(tokens)?;
        Ok(settings)
    }

    /// Removes `#[js(...)]` and `#[cfg_attr(feature = "js", js(...))]` from the attributes, and parses them.
    pub fn take(attributes: &mut Vec<Attribute>) -> Result<Settings> {
        let mut settings = Settings::default();
        let mut kept = Vec::new();
        for attribute in std::mem::take(attributes) {
            match js_tokens(&attribute)? {
                Some(tokens) => settings.add(tokens)?,
                None => kept.push(attribute),
            }
        }
        *attributes = kept;
        Ok(settings)
    }

    fn add(&mut self, tokens: TokenStream) -> Result<()> {
        syn::parse::Parser::parse2(
            |input: ParseStream| {
                while !input.is_empty() {
                    self.one(input)?;
                    if input.parse::<Option<Token![,]>>()?.is_none() {
                        break;
                    }
                }
                Ok(())
            },
            tokens,
        )
    }

    fn one(&mut self, input: ParseStream) -> Result<()> {
        let word: Ident = input.parse()?;
        let text = |input: ParseStream| -> Result<String> {
            input.parse::<Token![=]>()?;
            Ok(input.parse::<LitStr>()?.value())
        };
        match word.to_string().as_str() {
            "skip" => self.skip = true,
            // The type of a selection's condition does not determine the type of its result.
            "types" => {
                input.parse::<Token![=]>()?;
                if input.parse::<Ident>()? == "Select" {
                    self.returns = Some("Tensor".to_string());
                }
            }
            "dtype" => {
                input.parse::<Token![=]>()?;
                let dtype = input.parse::<Ident>()?.to_string().to_lowercase();
                self.returns = Some(format!("Tensor<\"{dtype}\">"));
            }
            "getter" => self.getter = true,
            "keepdims" => self.keepdims = true,
            "required" => self.required = true,
            "result" => self.result = true,
            "name" => self.name = Some(text(input)?),
            "example" => self.example = Some(text(input)?),
            "default" => self.default.extend(list(input)?),
            "spread" => self.spread.extend(list(input)?),
            "options" => self.options.extend(list(input)?),
            "returns" if input.peek(Token![=]) => self.returns = Some(text(input)?),
            "returns" | "new" => self.parts = names(input)?,
            "only" => self.only = names(input)?,
            _ => return Err(syn::Error::new_spanned(word, "#[js] has no such setting")),
        }
        Ok(())
    }
}

fn list(input: ParseStream) -> Result<Vec<self::Default>> {
    let inner;
    parenthesized!(inner in input);
    let list = Punctuated::<self::Default, Token![,]>::parse_terminated(&inner)?;
    Ok(list.into_iter().collect())
}

fn names(input: ParseStream) -> Result<Vec<String>> {
    Ok(list(input)?.into_iter().map(|one| one.name.to_string()).collect())
}

/// Returns the tokens in the parentheses, if the attribute belongs to this macro.
fn js_tokens(attribute: &Attribute) -> Result<Option<TokenStream>> {
    let Meta::List(list) = &attribute.meta else { return Ok(None) };
    if list.path.is_ident("js") {
        return Ok(Some(list.tokens.clone()));
    }
    if !list.path.is_ident("cfg_attr") {
        return Ok(None);
    }
    let metas = attribute.parse_args_with(Punctuated::<Meta, Token![,]>::parse_terminated)?;
    let ours = metas.iter().skip(1).find_map(|meta| match meta {
        Meta::List(inner) if inner.path.is_ident("js") => Some(inner.tokens.to_token_stream()),
        _ => None,
    });
    Ok(ours)
}
