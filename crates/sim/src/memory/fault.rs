//! Models that cannot be built.

use machine::model::{CacheGeometry, InvalidModel, Model, Replacement};

/// L2s of one package that a directory can tell apart.
const MOST_L2S: u32 = 64;
/// Ways of a cache that a tree of one word can order.
const MOST_TREE_WAYS: u32 = 64;

/// Why a model gives no memory system.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ModelFault {
    /// It breaks a rule of models.
    #[error("the model is not valid: {0}; correct the model file")]
    Invalid(#[from] InvalidModel),
    /// The directory has a bit for each L2 of a package.
    #[error("{l2s} level-two caches per package are too many: at most {MOST_L2S}; lower cores_per_socket")]
    TooManyL2s {
        /// How many.
        l2s: u32,
    },
    /// A tree of replacement that does not fit.
    #[error("{ways} ways with tree-plru are too many: at most {MOST_TREE_WAYS}; use lru or random")]
    TooManyTreeWays {
        /// How many.
        ways: u32,
    },
}

/// Checks all that the memory system relies on.
pub(super) fn check(model: &Model) -> Result<(), ModelFault> {
    model.check()?;
    let l2s = model.cores_per_socket / model.l2.shared_by_cores;
    if l2s > MOST_L2S {
        return Err(ModelFault::TooManyL2s { l2s });
    }
    let l3 = model.l3.as_ref().map(|l3| &l3.geometry);
    let too_wide = |geometry: &&CacheGeometry| {
        geometry.replacement == Replacement::TreePlru && geometry.ways > MOST_TREE_WAYS
    };
    match [&model.l1d.geometry, &model.l2.geometry].into_iter().chain(l3).find(too_wide) {
        Some(geometry) => Err(ModelFault::TooManyTreeWays { ways: geometry.ways }),
        None => Ok(()),
    }
}
