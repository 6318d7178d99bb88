//! Wildcards and rules that rename, as Python sees them.

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use seqferry_patterns::rename::{Piece, RuleFault, Rules, WrittenRule};
use seqferry_patterns::wildcard::{self, Dialect, TooLong};

/// Steps of a name, each of about a nanosecond, for which the GIL is kept: to release and reacquire it can take longer
/// where other threads have work.
const SHORT: usize = 100_000;

/// Wildcards of which the last one that matches decides.
#[pyclass(frozen, module = "seqferry._native")]
pub struct Wildcards(wildcard::Rules);

#[pymethods]
impl Wildcards {
    #[new]
    fn new(py: Python<'_>, rules: Vec<(bool, String)>, dialect: &str) -> PyResult<Self> {
        let dialect = match dialect {
            "key" => Dialect::Key,
            "path" => Dialect::Path,
            "rule" => Dialect::Rule,
            other => return Err(PyValueError::new_err(format!("no dialect: {other}"))),
        };
        let faulty = |fault| {
            PyValueError::new_err(match fault {
                TooLong::Wildcard(number) => ("wildcard", number, wildcard::MAX_WILDCARD),
                TooLong::List => ("list", 0, wildcard::MAX_LIST),
            })
        };
        py.detach(|| wildcard::Rules::new(&rules, dialect)).map(Self).map_err(faulty)
    }

    fn decide(&self, py: Python<'_>, name: &str) -> Option<bool> {
        if self.0.cost(name) < SHORT { self.0.decide(name) } else { py.detach(|| self.0.decide(name)) }
    }
}

/// Rules that rename, applied one after another.
#[pyclass(frozen, module = "seqferry._native")]
pub struct RenameRules(Rules);

#[derive(FromPyObject)]
enum PyPiece {
    #[pyo3(transparent)]
    Group(usize),
    #[pyo3(transparent)]
    Text(String),
}

#[pymethods]
impl RenameRules {
    #[new]
    fn new(py: Python<'_>, rules: Vec<(String, Vec<PyPiece>, bool, bool)>) -> PyResult<Self> {
        let written = |(pattern, pieces, ignores_case, is_global): (String, Vec<PyPiece>, bool, bool)| WrittenRule {
            pattern,
            replacement: pieces.into_iter().map(PyPiece::into_piece).collect(),
            ignores_case,
            is_global,
        };
        let rules = rules.into_iter().map(written).collect();
        py.detach(|| Rules::new(rules)).map(Self).map_err(|fault| refusal(&fault))
    }

    fn renamed(&self, py: Python<'_>, name: &str) -> PyResult<String> {
        let found = if self.0.may_take_long(name) { py.detach(|| self.0.renamed(name)) } else { self.0.renamed(name) };
        found.map_err(|fault| refusal(&fault))
    }
}

impl PyPiece {
    fn into_piece(self) -> Piece {
        match self {
            Self::Group(number) => Piece::Group(number),
            Self::Text(text) => Piece::Text(text),
        }
    }
}

/// `ValueError` whose arguments are the kind of the fault and its attributes.
fn refusal(fault: &RuleFault) -> PyErr {
    match fault {
        RuleFault::Pattern(rule, reason) => PyValueError::new_err(("pattern", *rule, reason.clone())),
        RuleFault::Group(rule, group, groups) => PyValueError::new_err(("group", *rule, *group, *groups)),
        RuleFault::List => PyValueError::new_err(("list",)),
        RuleFault::LongName => PyValueError::new_err(("name", seqferry_patterns::rename::MAX_NAME)),
        RuleFault::Slow(milliseconds, names) => PyValueError::new_err(("slow", *milliseconds, *names)),
    }
}
