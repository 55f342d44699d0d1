//! The modules of a crate, and what each of them refers to.
//!
//! Paths are taken from `use` declarations, code, the bodies of macros and the strings of attributes
//! (`#[serde(with = "crate::a")]`). Code for tests is left out. Calls of methods have no path, so a dependency on a module that
//! only adds methods to a type of another one is not found.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use proc_macro2::{TokenStream, TokenTree};
use syn::spanned::Spanned;
use syn::visit::Visit;
use syn::{Attribute, ImplItem, Item, UseTree};

use crate::graph::Place;

/// Modules and paths in a crate's source.
#[derive(Default)]
pub(crate) struct Source {
    /// Modules that the root declares.
    pub(crate) modules: BTreeSet<String>,
    /// Names that the root imports or re-exports, with their paths.
    pub(crate) imports: BTreeMap<String, Vec<String>>,
    /// Names of items that the root defines.
    pub(crate) defined: BTreeSet<String>,
    pub(crate) references: Vec<Reference>,
}

/// A path in the source.
pub(crate) struct Reference {
    /// The module that contains it; empty for the root.
    pub(crate) module: Vec<String>,
    /// Segments from the root of the crate.
    pub(crate) path: Vec<String>,
    pub(crate) place: Place,
}

/// Reads a crate from its root file. `directory` and `file` are relative to `workspace`.
pub(crate) fn read_source(workspace: &Path, directory: &Path, file: &str) -> Result<Source, String> {
    let mut source = Source::default();
    // The directory that contains the modules of the current file.
    let mut queue = vec![(directory.join(file), directory.to_owned(), Vec::new())];
    while let Some((file, directory, module)) = queue.pop() {
        let text = std::fs::read_to_string(workspace.join(&file))
            .map_err(|error| format!("{}: {error}", file.display()))?;
        let parsed = syn::parse_file(&text)
            .map_err(|error| format!("{}:{}: {error}", file.display(), error.span().start().line))?;
        let mut reader = Reader { source: &mut source, module, file, children: Vec::new() };
        if reader.module.is_empty() {
            reader.read_root(&parsed.items);
        }
        reader.visit_file(&parsed);
        for child in reader.children {
            let name = child.last().cloned().unwrap_or_default();
            let within = child[reader.module.len()..child.len() - 1]
                .iter()
                .fold(directory.clone(), |at, name| at.join(name));
            let own = within.join(&name);
            let file = [own.with_extension("rs"), own.join("mod.rs")]
                .into_iter()
                .find(|file| workspace.join(file).is_file());
            let file =
                file.ok_or_else(|| format!("{}: the file of module `{name}` is missing", own.display()))?;
            queue.push((file, own, child));
        }
    }
    Ok(source)
}

struct Reader<'a> {
    source: &'a mut Source,
    module: Vec<String>,
    file: PathBuf,
    /// Modules with a file.
    children: Vec<Vec<String>>,
}

impl Reader<'_> {
    /// Records the targets of paths of the form `crate::Name`.
    fn read_root(&mut self, items: &[Item]) {
        for item in items.iter().filter(|item| !is_for_tests(attributes(item))) {
            let defined = match item {
                Item::Mod(item) => {
                    self.source.modules.insert(item.ident.to_string());
                    continue;
                }
                Item::Use(item) if item.leading_colon.is_none() => {
                    for (path, name, _) in flatten(&item.tree) {
                        self.source.imports.insert(name, path);
                    }
                    continue;
                }
                Item::Const(item) => &item.ident,
                Item::Enum(item) => &item.ident,
                Item::Fn(item) => &item.sig.ident,
                Item::Static(item) => &item.ident,
                Item::Struct(item) => &item.ident,
                Item::Trait(item) => &item.ident,
                Item::Type(item) => &item.ident,
                Item::Union(item) => &item.ident,
                _ => continue,
            };
            self.source.defined.insert(defined.to_string());
        }
    }

    fn refer(&mut self, path: &[String], line: usize) {
        // The receiver of a method looks like a path.
        if path == ["self"] {
            return;
        }
        let Some(path) = self.absolute(path) else { return };
        let place = Place { file: self.file.clone(), line };
        self.source.references.push(Reference { module: self.module.clone(), path, place });
    }

    /// Returns a path from the root of the crate; `None` if it leads to another crate or to the module that contains it.
    fn absolute(&self, path: &[String]) -> Option<Vec<String>> {
        let (first, rest) = path.split_first()?;
        match first.as_str() {
            "crate" => Some(rest.to_vec()),
            "self" | "super" => {
                // `self::super::a` is legal.
                let start = usize::from(first == "self");
                let levels = path[start..].iter().take_while(|name| *name == "super").count();
                let above = &self.module[..self.module.len().checked_sub(levels)?];
                Some(above.iter().chain(&path[start + levels..]).cloned().collect())
            }
            // A single name may be a variable with the name of a module.
            name if self.module.is_empty() => {
                let is_module = !rest.is_empty() && self.source.modules.contains(name);
                (is_module || self.source.imports.contains_key(name)).then(|| path.to_vec())
            }
            _ => None,
        }
    }

    /// Finds paths in tokens that are not parsed.
    fn scan(&mut self, tokens: TokenStream) {
        let mut path: Vec<String> = Vec::new();
        let (mut colons, mut line) = (0, 0);
        for token in tokens {
            match &token {
                TokenTree::Punct(punct) if punct.as_char() == ':' => {
                    colons += 1;
                    continue;
                }
                TokenTree::Ident(name) if colons == 2 && !path.is_empty() => path.push(name.to_string()),
                other => {
                    self.refer(&std::mem::take(&mut path), line);
                    match other {
                        // After two colons, it belongs to a path of another crate or to a type in angle brackets.
                        TokenTree::Ident(name) if colons != 2 => {
                            line = name.span().start().line;
                            path.push(name.to_string());
                        }
                        TokenTree::Group(group) => self.scan(group.stream()),
                        _ => {}
                    }
                }
            }
            colons = 0;
        }
        self.refer(&path, line);
    }
}

impl<'ast> Visit<'ast> for Reader<'_> {
    fn visit_item(&mut self, item: &'ast Item) {
        if !is_for_tests(attributes(item)) {
            syn::visit::visit_item(self, item);
        }
    }

    fn visit_impl_item(&mut self, item: &'ast ImplItem) {
        let attributes: &[Attribute] = match item {
            ImplItem::Const(item) => &item.attrs,
            ImplItem::Fn(item) => &item.attrs,
            ImplItem::Macro(item) => &item.attrs,
            ImplItem::Type(item) => &item.attrs,
            _ => &[],
        };
        if !is_for_tests(attributes) {
            syn::visit::visit_impl_item(self, item);
        }
    }

    fn visit_item_mod(&mut self, item: &'ast syn::ItemMod) {
        self.module.push(item.ident.to_string());
        match &item.content {
            Some(_) => syn::visit::visit_item_mod(self, item),
            None => self.children.push(self.module.clone()),
        }
        self.module.pop();
    }

    fn visit_item_use(&mut self, item: &'ast syn::ItemUse) {
        // An import of the root counts for its users: by its own code, or by a module as `crate::Name`.
        if item.leading_colon.is_none() && !self.module.is_empty() {
            for (path, _, line) in flatten(&item.tree) {
                self.refer(&path, line);
            }
        }
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        if path.leading_colon.is_none() {
            let names: Vec<String> = path.segments.iter().map(|segment| segment.ident.to_string()).collect();
            self.refer(&names, path.span().start().line);
        }
        syn::visit::visit_path(self, path);
    }

    /// Skips paths like that of `pub(crate)`, which do not use the module.
    fn visit_visibility(&mut self, _: &'ast syn::Visibility) {}

    fn visit_macro(&mut self, item: &'ast syn::Macro) {
        self.visit_path(&item.path);
        self.scan(item.tokens.clone());
    }

    fn visit_attribute(&mut self, attribute: &'ast Attribute) {
        let syn::Meta::List(list) = &attribute.meta else { return };
        for token in list.tokens.clone() {
            let TokenTree::Literal(literal) = token else { continue };
            let text = literal.to_string();
            let path: Vec<String> = text.trim_matches('"').split("::").map(str::to_owned).collect();
            if path.len() > 1 {
                self.refer(&path, literal.span().start().line);
            }
        }
    }
}

/// Returns the paths of a `use` declaration, each with the name it gets and its line. The name of a glob is `*`.
fn flatten(tree: &UseTree) -> Vec<(Vec<String>, String, usize)> {
    match tree {
        UseTree::Path(path) => {
            let own = path.ident.to_string();
            let below = flatten(&path.tree).into_iter().map(|(rest, name, line)| {
                let name = if rest.is_empty() { own.clone() } else { name };
                ([vec![own.clone()], rest].concat(), name, line)
            });
            below.collect()
        }
        UseTree::Group(group) => group.items.iter().flat_map(flatten).collect(),
        UseTree::Name(name) => {
            let text = name.ident.to_string();
            // `use a::{self}` is `use a`.
            let path = if text == "self" { Vec::new() } else { vec![text.clone()] };
            vec![(path, text, name.ident.span().start().line)]
        }
        UseTree::Rename(rename) => {
            vec![(
                vec![rename.ident.to_string()],
                rename.rename.to_string(),
                rename.ident.span().start().line,
            )]
        }
        UseTree::Glob(glob) => vec![(vec!["*".into()], "*".into(), glob.span().start().line)],
    }
}

/// Returns whether attributes have `cfg(test)` or `cfg(all(test, ...))`.
fn is_for_tests(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        let syn::Meta::List(list) = &attribute.meta else { return false };
        let condition: String = list.tokens.to_string().split_whitespace().collect();
        list.path.is_ident("cfg") && (condition == "test" || condition.starts_with("all(test,"))
    })
}

fn attributes(item: &Item) -> &[Attribute] {
    match item {
        Item::Const(item) => &item.attrs,
        Item::Enum(item) => &item.attrs,
        Item::Fn(item) => &item.attrs,
        Item::Impl(item) => &item.attrs,
        Item::Macro(item) => &item.attrs,
        Item::Mod(item) => &item.attrs,
        Item::Static(item) => &item.attrs,
        Item::Struct(item) => &item.attrs,
        Item::Trait(item) => &item.attrs,
        Item::Type(item) => &item.attrs,
        Item::Union(item) => &item.attrs,
        Item::Use(item) => &item.attrs,
        _ => &[],
    }
}
