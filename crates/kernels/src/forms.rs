//! Which x86 instruction does what in which width. The only place that knows opcodes of vector operations.

use iced_x86::{Code, Register};
use machine::Width;

use crate::description::Arithmetic;

/// A way to encode floating-point operations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// One element, legacy encoding: two operands, the first overwritten.
    Scalar,
    /// One element, VEX encoding, for use beside wider VEX code.
    VexScalar,
    /// 128 bits, legacy encoding.
    Xmm,
    /// 256 bits, VEX encoding.
    Ymm,
    /// 512 bits, EVEX encoding.
    Zmm,
}

/// `[multiplicand overwritten with memory factor (132), multiplicand overwritten (213), addend overwritten (231)]`
pub type FmaCodes = [Code; 3];

impl Form {
    /// The form of a width's main loop.
    pub fn of(width: Width) -> Self {
        match width {
            Width::Scalar => Self::Scalar,
            Width::Sse => Self::Xmm,
            Width::Avx2 => Self::Ymm,
            Width::Avx512 => Self::Zmm,
        }
    }

    /// The form for single elements beside a width's main loop.
    pub fn scalar_beside(width: Width) -> Self {
        match width {
            Width::Scalar | Width::Sse => Self::Scalar,
            Width::Avx2 | Width::Avx512 => Self::VexScalar,
        }
    }

    /// Whether the destination is an operand of its own.
    pub fn three_operands(self) -> bool {
        matches!(self, Self::VexScalar | Self::Ymm | Self::Zmm)
    }

    /// Bytes one operation touches.
    pub fn bytes(self, element: u64) -> u64 {
        match self {
            Self::Scalar | Self::VexScalar => element,
            Self::Xmm => 16,
            Self::Ymm => 32,
            Self::Zmm => 64,
        }
    }

    /// Elements one operation computes.
    pub fn lanes(self, element: u64) -> u64 {
        self.bytes(element) / element
    }

    /// Vector register `number` under the name this form uses.
    pub fn register(self, number: usize) -> Register {
        let first = match self {
            Self::Scalar | Self::VexScalar | Self::Xmm => Register::XMM0,
            Self::Ymm => Register::YMM0,
            Self::Zmm => Register::ZMM0,
        };
        first + number as u32
    }

    /// Load from memory, any alignment.
    pub fn load(self, element: u64) -> Code {
        match (self, element) {
            (Self::Scalar, 4) => Code::Movss_xmm_xmmm32,
            (Self::Scalar, _) => Code::Movsd_xmm_xmmm64,
            (Self::VexScalar, 4) => Code::VEX_Vmovss_xmm_m32,
            (Self::VexScalar, _) => Code::VEX_Vmovsd_xmm_m64,
            (Self::Xmm, _) => Code::Movups_xmm_xmmm128,
            (Self::Ymm, _) => Code::VEX_Vmovups_ymm_ymmm256,
            (Self::Zmm, _) => Code::EVEX_Vmovups_zmm_k1z_zmmm512,
        }
    }

    /// Store to memory, any alignment.
    pub fn store(self, element: u64) -> Code {
        match (self, element) {
            (Self::Scalar, 4) => Code::Movss_xmmm32_xmm,
            (Self::Scalar, _) => Code::Movsd_xmmm64_xmm,
            (Self::VexScalar, 4) => Code::VEX_Vmovss_m32_xmm,
            (Self::VexScalar, _) => Code::VEX_Vmovsd_m64_xmm,
            (Self::Xmm, _) => Code::Movups_xmmm128_xmm,
            (Self::Ymm, _) => Code::VEX_Vmovups_ymmm256_ymm,
            (Self::Zmm, _) => Code::EVEX_Vmovups_zmmm512_k1z_zmm,
        }
    }

    /// Store past the caches, aligned; single elements have none and go through an integer register.
    pub fn store_non_temporal(self) -> Option<Code> {
        match self {
            Self::Scalar | Self::VexScalar => None,
            Self::Xmm => Some(Code::Movntps_m128_xmm),
            Self::Ymm => Some(Code::VEX_Vmovntps_m256_ymm),
            Self::Zmm => Some(Code::EVEX_Vmovntps_m512_zmm),
        }
    }

    /// Copy between registers.
    pub fn copy(self) -> Code {
        match self {
            Self::Scalar | Self::Xmm => Code::Movaps_xmm_xmmm128,
            Self::VexScalar => Code::VEX_Vmovaps_xmm_xmmm128,
            Self::Ymm => Code::VEX_Vmovaps_ymm_ymmm256,
            Self::Zmm => Code::EVEX_Vmovaps_zmm_k1z_zmmm512,
        }
    }

    /// Load of the lower half, and insertion of the upper one from memory.
    pub fn halves(self) -> Option<(Code, Code)> {
        match self {
            Self::Ymm => Some((Code::VEX_Vmovups_xmm_xmmm128, Code::VEX_Vinsertf128_ymm_ymm_xmmm128_imm8)),
            Self::Zmm => {
                Some((Code::VEX_Vmovups_ymm_ymmm256, Code::EVEX_Vinsertf64x4_zmm_k1z_zmm_ymmm256_imm8))
            }
            _ => None,
        }
    }

    /// Addition, multiplication, division, the larger of two.
    pub fn arithmetic(self, kind: Arithmetic, element: u64) -> Code {
        use Arithmetic::{Add, AddIntegers, Div, Max, Mul};
        match (self, kind, element) {
            (Self::Scalar, Max, 4) => Code::Maxss_xmm_xmmm32,
            (Self::Scalar, Max, _) => Code::Maxsd_xmm_xmmm64,
            (Self::VexScalar, Max, 4) => Code::VEX_Vmaxss_xmm_xmm_xmmm32,
            (Self::VexScalar, Max, _) => Code::VEX_Vmaxsd_xmm_xmm_xmmm64,
            (Self::Xmm, Max, 4) => Code::Maxps_xmm_xmmm128,
            (Self::Xmm, Max, _) => Code::Maxpd_xmm_xmmm128,
            (Self::Ymm, Max, 4) => Code::VEX_Vmaxps_ymm_ymm_ymmm256,
            (Self::Ymm, Max, _) => Code::VEX_Vmaxpd_ymm_ymm_ymmm256,
            (Self::Zmm, Max, 4) => Code::EVEX_Vmaxps_zmm_k1z_zmm_zmmm512b32_sae,
            (Self::Zmm, Max, _) => Code::EVEX_Vmaxpd_zmm_k1z_zmm_zmmm512b64_sae,
            (Self::Scalar | Self::Xmm, AddIntegers, _) => Code::Paddq_xmm_xmmm128,
            (Self::VexScalar, AddIntegers, _) => Code::VEX_Vpaddq_xmm_xmm_xmmm128,
            (Self::Ymm, AddIntegers, _) => Code::VEX_Vpaddq_ymm_ymm_ymmm256,
            (Self::Zmm, AddIntegers, _) => Code::EVEX_Vpaddq_zmm_k1z_zmm_zmmm512b64,
            (Self::Scalar, Add, 4) => Code::Addss_xmm_xmmm32,
            (Self::Scalar, Mul, 4) => Code::Mulss_xmm_xmmm32,
            (Self::Scalar, Div, 4) => Code::Divss_xmm_xmmm32,
            (Self::Scalar, Add, _) => Code::Addsd_xmm_xmmm64,
            (Self::Scalar, Mul, _) => Code::Mulsd_xmm_xmmm64,
            (Self::Scalar, Div, _) => Code::Divsd_xmm_xmmm64,
            (Self::VexScalar, Add, 4) => Code::VEX_Vaddss_xmm_xmm_xmmm32,
            (Self::VexScalar, Mul, 4) => Code::VEX_Vmulss_xmm_xmm_xmmm32,
            (Self::VexScalar, Div, 4) => Code::VEX_Vdivss_xmm_xmm_xmmm32,
            (Self::VexScalar, Add, _) => Code::VEX_Vaddsd_xmm_xmm_xmmm64,
            (Self::VexScalar, Mul, _) => Code::VEX_Vmulsd_xmm_xmm_xmmm64,
            (Self::VexScalar, Div, _) => Code::VEX_Vdivsd_xmm_xmm_xmmm64,
            (Self::Xmm, Add, 4) => Code::Addps_xmm_xmmm128,
            (Self::Xmm, Mul, 4) => Code::Mulps_xmm_xmmm128,
            (Self::Xmm, Div, 4) => Code::Divps_xmm_xmmm128,
            (Self::Xmm, Add, _) => Code::Addpd_xmm_xmmm128,
            (Self::Xmm, Mul, _) => Code::Mulpd_xmm_xmmm128,
            (Self::Xmm, Div, _) => Code::Divpd_xmm_xmmm128,
            (Self::Ymm, Add, 4) => Code::VEX_Vaddps_ymm_ymm_ymmm256,
            (Self::Ymm, Mul, 4) => Code::VEX_Vmulps_ymm_ymm_ymmm256,
            (Self::Ymm, Div, 4) => Code::VEX_Vdivps_ymm_ymm_ymmm256,
            (Self::Ymm, Add, _) => Code::VEX_Vaddpd_ymm_ymm_ymmm256,
            (Self::Ymm, Mul, _) => Code::VEX_Vmulpd_ymm_ymm_ymmm256,
            (Self::Ymm, Div, _) => Code::VEX_Vdivpd_ymm_ymm_ymmm256,
            (Self::Zmm, Add, 4) => Code::EVEX_Vaddps_zmm_k1z_zmm_zmmm512b32_er,
            (Self::Zmm, Mul, 4) => Code::EVEX_Vmulps_zmm_k1z_zmm_zmmm512b32_er,
            (Self::Zmm, Div, 4) => Code::EVEX_Vdivps_zmm_k1z_zmm_zmmm512b32_er,
            (Self::Zmm, Add, _) => Code::EVEX_Vaddpd_zmm_k1z_zmm_zmmm512b64_er,
            (Self::Zmm, Mul, _) => Code::EVEX_Vmulpd_zmm_k1z_zmm_zmmm512b64_er,
            (Self::Zmm, Div, _) => Code::EVEX_Vdivpd_zmm_k1z_zmm_zmmm512b64_er,
        }
    }

    /// Fused multiply-add, where the form has it.
    pub fn fma(self, element: u64) -> Option<FmaCodes> {
        Some(match (self, element) {
            (Self::Scalar | Self::Xmm, _) => return None,
            (Self::VexScalar, 4) => [
                Code::VEX_Vfmadd132ss_xmm_xmm_xmmm32,
                Code::VEX_Vfmadd213ss_xmm_xmm_xmmm32,
                Code::VEX_Vfmadd231ss_xmm_xmm_xmmm32,
            ],
            (Self::VexScalar, _) => [
                Code::VEX_Vfmadd132sd_xmm_xmm_xmmm64,
                Code::VEX_Vfmadd213sd_xmm_xmm_xmmm64,
                Code::VEX_Vfmadd231sd_xmm_xmm_xmmm64,
            ],
            (Self::Ymm, 4) => [
                Code::VEX_Vfmadd132ps_ymm_ymm_ymmm256,
                Code::VEX_Vfmadd213ps_ymm_ymm_ymmm256,
                Code::VEX_Vfmadd231ps_ymm_ymm_ymmm256,
            ],
            (Self::Ymm, _) => [
                Code::VEX_Vfmadd132pd_ymm_ymm_ymmm256,
                Code::VEX_Vfmadd213pd_ymm_ymm_ymmm256,
                Code::VEX_Vfmadd231pd_ymm_ymm_ymmm256,
            ],
            (Self::Zmm, 4) => [
                Code::EVEX_Vfmadd132ps_zmm_k1z_zmm_zmmm512b32_er,
                Code::EVEX_Vfmadd213ps_zmm_k1z_zmm_zmmm512b32_er,
                Code::EVEX_Vfmadd231ps_zmm_k1z_zmm_zmmm512b32_er,
            ],
            (Self::Zmm, _) => [
                Code::EVEX_Vfmadd132pd_zmm_k1z_zmm_zmmm512b64_er,
                Code::EVEX_Vfmadd213pd_zmm_k1z_zmm_zmmm512b64_er,
                Code::EVEX_Vfmadd231pd_zmm_k1z_zmm_zmmm512b64_er,
            ],
        })
    }
}
