//! What the CPU calls itself and what it can run.

use super::{arm, cpuinfo::CpuInfo};
use crate::{Isa, Source, cpuid::Cpuid, gaps::Gaps, source, topology::CpuIdentity};

/// The architecture: of the running kernel, or as a captured tree tells.
pub(super) fn arch(source: &Source, info: &CpuInfo, gaps: &mut Gaps) -> Option<String> {
    if source.is_live() {
        return source::name(&rustix::system::uname().machine().to_string_lossy());
    }
    let path = "proc/sys/kernel/arch";
    // Kernels before 6.1 do not have the file.
    if let Some(arch) = gaps.take_if_there(source.value(path, "an architecture", source::name)) {
        return Some(arch);
    }
    let arch = if info.first("CPU implementer").is_some() {
        "aarch64"
    } else if info.flag("lm") == Some(true) {
        "x86_64"
    } else {
        gaps.note(format!("/{path}"), "missing, and /proc/cpuinfo does not tell the architecture either");
        return None;
    };
    Some(arch.into())
}

/// Vector extensions. For a captured machine the kernel's flags come first: unlike CPUID they leave out what
/// the system did not enable.
pub(super) fn isa(source: &Source, cpuid: Option<&Cpuid>, info: &CpuInfo) -> Isa {
    if source.is_live() {
        return Isa::native();
    }
    let flag = |name| info.flag(name);
    match (flag("lm"), flag("avx"), flag("avx2"), flag("fma"), flag("avx512f")) {
        (Some(x86_64), Some(avx), Some(avx2), Some(fma), Some(avx512f)) => {
            Isa { x86_64, avx, avx2, fma, avx512f }
        }
        _ => cpuid.map(Cpuid::isa).unwrap_or_default(),
    }
}

/// Vendor, names and numbers.
pub(super) fn cpu(
    source: &Source,
    cpuid: Option<&Cpuid>,
    info: &CpuInfo,
    arch: Option<&str>,
    gaps: &mut Gaps,
) -> CpuIdentity {
    if info.first("CPU implementer").is_some() {
        return arm_cpu(info, gaps);
    }
    let number = |field| info.first(field).and_then(|text| text.parse::<u32>().ok());
    let signature = cpuid.and_then(Cpuid::signature);
    let text = |field| info.first(field).and_then(source::name);
    let identity = CpuIdentity {
        vendor: cpuid.and_then(Cpuid::vendor).or_else(|| text("vendor_id")),
        model_name: cpuid.and_then(Cpuid::brand).or_else(|| text("model name")),
        family: signature.map(|(family, _, _)| family).or_else(|| number("cpu family")),
        model: signature.map(|(_, model, _)| model).or_else(|| number("model")),
        stepping: signature.map(|(_, _, stepping)| stepping).or_else(|| number("stepping")),
        microcode: text("microcode").or_else(|| microcode(source)),
    };
    let mut check = |known: bool, field: &str| {
        if !known {
            gaps.note(format!("/proc/cpuinfo, {field}"), "not stated, by CPUID neither");
        }
    };
    check(identity.vendor.is_some(), "vendor_id");
    check(identity.model_name.is_some(), "model name");
    check(identity.family.is_some(), "cpu family");
    check(identity.model.is_some(), "model");
    check(identity.stepping.is_some(), "stepping");
    if identity.microcode.is_none() && arch.is_none_or(|arch| arch == "x86_64") {
        gaps.note("/proc/cpuinfo, microcode", "not stated");
    }
    identity
}

fn microcode(source: &Source) -> Option<String> {
    let path = "sys/devices/system/cpu/cpu0/microcode/version";
    source.value(path, "a microcode revision", source::name).ok()
}

/// Arm states codes; machines with two kinds of core have two parts.
fn arm_cpu(info: &CpuInfo, gaps: &mut Gaps) -> CpuIdentity {
    let code = |field| info.first(field).and_then(parse_code);
    let mut check = |field: &str, code: Option<u32>| {
        if code.is_none() {
            let shown = info.first(field).map_or("is not stated".into(), |text| {
                format!("holds '{}', not a number", source::clean(&text.chars().take(40).collect::<String>()))
            });
            gaps.note(format!("/proc/cpuinfo, {field}"), shown);
        }
        code
    };
    let implementer = check("CPU implementer", code("CPU implementer"));
    let part = check("CPU part", code("CPU part"));
    let variant = check("CPU variant", code("CPU variant"));
    let revision = check("CPU revision", code("CPU revision"));
    let vendor = implementer.map(|code| match arm::implementer(code) {
        Some(name) => name.to_owned(),
        None => format!("implementer {code:#x}"),
    });
    CpuIdentity {
        vendor,
        model_name: implementer.and_then(|implementer| arm_name(info, implementer, gaps)),
        family: code("CPU architecture"),
        model: part,
        stepping: variant.zip(revision).map(|(variant, revision)| (variant & 0xf) << 4 | revision & 0xf),
        microcode: None,
    }
}

fn arm_name(info: &CpuInfo, implementer: u32, gaps: &mut Gaps) -> Option<String> {
    let mut parts: Vec<u32> = info.each("CPU part").filter_map(|(_, text)| parse_code(text)).collect();
    parts.sort_unstable();
    parts.dedup();
    let names: Vec<&str> = parts.iter().filter_map(|&part| arm::part(implementer, part)).collect();
    for part in parts.iter().filter(|&&part| arm::part(implementer, part).is_none()).take(4) {
        gaps.note("/proc/cpuinfo, CPU part", format!("no name is known for part {part:#x}"));
    }
    (!names.is_empty()).then(|| names.join(" + "))
}

/// `0xd0c` or `8`.
fn parse_code(text: &str) -> Option<u32> {
    match text.strip_prefix("0x") {
        Some(digits) => u32::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    }
}
