//! From what a decoded µop needs to what a core model offers.

use code::{Uop, UopClass};
use machine::model::{CoreModel, OpClass};

use super::{CoreError, timeline::MAX_PORTS};

/// What a µop does to a core.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum OperationKind {
    /// One or a few cycles of a port.
    Execute,
    /// Data of a store.
    StoreData,
    /// Address of a store.
    StoreAddress,
    /// Reads memory.
    Load,
    /// Asks for a line and waits for nothing.
    Prefetch,
    /// A port, and the divider for long.
    Divide,
    /// Takes a slot only: nops and zeroing idioms.
    Free,
    /// Waits for everything before it; loads and stores behind it wait for it.
    Fence,
}

impl OperationKind {
    /// Whether it is more, or less, than one start on a port.
    #[inline]
    pub fn is_special(self) -> bool {
        matches!(self, Self::Divide | Self::Free | Self::Fence)
    }
}

/// Ports, latency and repeat time of a µop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Timing {
    pub kind: OperationKind,
    /// One bit per lane of the timeline.
    pub ports: u16,
    pub latency: u16,
    pub busy: u16,
}

/// One entry per class of operation.
#[derive(Clone, Copy, Debug, Default)]
struct ExecutionUnit {
    /// Lanes that run it.
    ports: u16,
    latency: Option<u16>,
    repeat: u16,
    repeat_wide: u16,
}

/// What a core model offers, by class.
#[derive(Clone, Debug)]
pub(crate) struct Units {
    units: [ExecutionUnit; CLASSES],
    /// Widest access of each lane; the largest number where the model names none.
    widest: [u32; MAX_PORTS],
}

const CLASSES: usize = OpClass::Branch as usize + 1;
/// Vectors of this many bytes and more are wide.
const WIDE_BYTES: u16 = 32;
/// Of an operation the model gives no latency for, where one cycle is a fair reading: address, data, branch.
const IMPLIED: [OpClass; 4] = [OpClass::Load, OpClass::StoreAddress, OpClass::StoreData, OpClass::Branch];

impl Units {
    pub fn new(model: &CoreModel) -> Result<Self, CoreError> {
        if model.ports.len() > MAX_PORTS {
            return Err(CoreError::TooManyPorts { ports: model.ports.len(), most: MAX_PORTS });
        }
        // Of equally loaded ports the first is taken: those that can do least come first.
        let mut ports: Vec<_> = model.ports.iter().collect();
        ports.sort_by_key(|port| port.runs.len());
        let mut units = [ExecutionUnit { repeat: 1, repeat_wide: 1, ..ExecutionUnit::default() }; CLASSES];
        for class in IMPLIED {
            units[class as usize].latency = Some(1);
        }
        let mut widest = [u32::MAX; MAX_PORTS];
        for (lane, port) in ports.iter().enumerate() {
            widest[lane] = port.bytes.unwrap_or(u32::MAX).max(1);
            for &class in &port.runs {
                units[class as usize].ports |= 1 << lane;
            }
        }
        for operation in &model.operations {
            let unit = &mut units[operation.class as usize];
            unit.latency = Some(narrow(operation.latency));
            unit.repeat = narrow(operation.repeat).max(1);
            unit.repeat_wide = operation.repeat_wide.map_or(unit.repeat, narrow).max(1);
        }
        Ok(Self { units, widest })
    }

    /// The timing of a µop; `bytes` are those of its memory operand, where it has one.
    pub fn timing(&self, uop: &Uop, bytes: u16, address: u64) -> Result<Timing, CoreError> {
        let Some(class) = class_of(uop) else {
            let kind =
                if uop.class() == UopClass::Fence { OperationKind::Fence } else { OperationKind::Free };
            return Ok(Timing { kind, ports: 0, latency: 0, busy: 0 });
        };
        let unit = &self.units[class as usize];
        if unit.ports == 0 {
            return Err(CoreError::NoPort { address, class });
        }
        let latency = unit.latency.ok_or(CoreError::NoLatency { address, class })?;
        let kind = kind_of(uop.class(), class);
        let accesses = matches!(kind, OperationKind::Load | OperationKind::StoreData);
        let wide = if accesses { bytes >= WIDE_BYTES } else { u16::from(uop.width_bytes()) >= WIDE_BYTES };
        let mut busy = if wide { unit.repeat_wide } else { unit.repeat };
        let mut ports = unit.ports;
        if accesses {
            let cycles = |lane: u32| u32::from(bytes).div_ceil(self.widest[lane as usize]).max(1);
            let lanes = || (0..MAX_PORTS as u32).filter(|&lane| unit.ports >> lane & 1 == 1);
            let fewest = lanes().map(cycles).min().unwrap_or(1);
            ports = lanes().filter(|&lane| cycles(lane) == fewest).map(|lane| 1 << lane).sum();
            busy = busy.max(narrow(fewest));
        }
        Ok(Timing { kind, ports, latency, busy })
    }
}

fn narrow(cycles: u32) -> u16 {
    u16::try_from(cycles).unwrap_or(u16::MAX)
}

fn kind_of(uop: UopClass, class: OpClass) -> OperationKind {
    match (uop, class) {
        (UopClass::Load, _) => OperationKind::Load,
        (UopClass::Prefetch, _) => OperationKind::Prefetch,
        (UopClass::StoreAddress, _) => OperationKind::StoreAddress,
        (UopClass::StoreData, _) => OperationKind::StoreData,
        (_, OpClass::IntegerDivide | OpClass::FloatDivide | OpClass::FloatSqrt) => OperationKind::Divide,
        _ => OperationKind::Execute,
    }
}

/// The class of operation a µop is; none if it needs no port.
fn class_of(uop: &Uop) -> Option<OpClass> {
    Some(match uop.class() {
        UopClass::Load | UopClass::Prefetch => OpClass::Load,
        UopClass::StoreAddress | UopClass::Flush => OpClass::StoreAddress,
        UopClass::StoreData => OpClass::StoreData,
        UopClass::IntAlu | UopClass::Microcode => OpClass::Integer,
        UopClass::IntMul => OpClass::IntegerMultiply,
        UopClass::IntDiv => OpClass::IntegerDivide,
        UopClass::FpAdd => OpClass::FloatAdd,
        UopClass::FpMul | UopClass::VectorMul => OpClass::FloatMultiply,
        UopClass::FpFma => OpClass::FloatFma,
        UopClass::FpDiv => OpClass::FloatDivide,
        UopClass::FpSqrt => OpClass::FloatSqrt,
        UopClass::FpConvert
        | UopClass::VectorInt
        | UopClass::VectorLogic
        | UopClass::VectorShuffle
        | UopClass::MaskLogic
        | UopClass::Transfer => OpClass::Vector,
        UopClass::Move if uop.width_bytes() > 8 => OpClass::Vector,
        UopClass::Move => OpClass::Integer,
        UopClass::Branch => OpClass::Branch,
        UopClass::Zero | UopClass::StackPointer | UopClass::Nop | UopClass::Fence => return None,
    })
}
