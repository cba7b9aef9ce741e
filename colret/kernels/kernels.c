/* Largest products of query tokens with the vectors of ragged pages: the arithmetic of MaxSim.
 *
 * A plain shared library without Python in it, called through ctypes, which releases the
 * interpreter's lock. Pages are coded as types.py (Multivectors) describes.
 *
 * How it works. Lanes of a SIMD register are query tokens, so that neither a product nor a
 * maximum ever has to be added up across lanes. A page's vectors are unpacked, a few rows at
 * a time, into a tile that stays in the first-level cache: small integers, one per component.
 * A step broadcasts one unit of a row (the 4 bytes, 2 words or 1 number that the processor's
 * instruction multiplies at once) and multiplies it with the same unit of every token. Several
 * rows and groups of tokens are in registers together, so each unit is loaded once for several
 * products. What the unpacking shifted or halved is put right once per page and token, since
 * the maximum does not mind: the same loop serves int8, int4, signs and Hamming distances.
 *
 * DEFINE_PASS writes that loop once; each instruction set gives its registers and its product.
 */
#include <limits.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#if defined(__x86_64__)
#include <cpuid.h>
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#if defined(__linux__)
#include <sys/auxv.h>
#endif
#endif

#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "unpacking takes bytes to be in little-endian order"
#endif

#define EXPORT __attribute__((visibility("default")))
#define INLINE static inline __attribute__((always_inline))
#define TILE_ROWS 32 /* a multiple of every ROWS below */
#define MAX_GROUPS 3 /* of tokens, in registers at once */
#define MAX_INSTRUCTIONS 6

/* Queries are int8 for the first three, signs for the next, and float for the last two. */
enum coding { INT8, INT4, BINARY, SIGNS, FLOAT16, FLOAT32 };

/* Units lie anywhere in memory, and other types wrote them. */
typedef int32_t unit32 __attribute__((aligned(1), may_alias));
typedef int64_t unit64 __attribute__((aligned(1), may_alias));
typedef float unitf __attribute__((aligned(1), may_alias));

/* A page's rows in memory, and as unpacked into the tile. */
typedef struct {
    enum coding coding;
    int64_t dim;
    int64_t row_bytes;  /* of a page's vector */
    int64_t components; /* of a row of the tile: dimensions, or bytes of bits, rounded up */
} shape;

/* ---- The loop ---------------------------------------------------------------------------- */

/* NAME updates `best` (groups x LANES) by the products of `n_rows` rows of a tile with groups of
 * LANES tokens, `n_groups` from 1 to 3. `query` is groups x steps x LANES units. */
#define DEFINE_PASS(NAME, TARGET, UNIT, VECTOR, LANES, ROWS, LOAD, STORE, BROADCAST, ADD_PRODUCT, MAX)         \
    TARGET INLINE void NAME##_groups(const int n_groups, const UNIT *tile, int n_rows, const UNIT *query,      \
                                     int64_t n_steps, UNIT *best) {                                            \
        VECTOR most[MAX_GROUPS];                                                                               \
        for (int g = 0; g < n_groups; g++) most[g] = LOAD(VECTOR, best + g * LANES);                           \
        for (int first = 0; first < n_rows; first += ROWS) {                                                   \
            const UNIT *rows = tile + first * n_steps;                                                         \
            VECTOR sums[MAX_GROUPS][ROWS];                                                                     \
            for (int g = 0; g < n_groups; g++)                                                                 \
                for (int r = 0; r < ROWS; r++) sums[g][r] = BROADCAST(0);                                      \
            int64_t step = 0;                                                                                  \
            do {                                                                                               \
                VECTOR tokens[MAX_GROUPS];                                                                     \
                for (int g = 0; g < n_groups; g++)                                                             \
                    tokens[g] = LOAD(VECTOR, query + (g * n_steps + step) * LANES);                            \
                for (int r = 0; r < ROWS; r++) {                                                               \
                    VECTOR unit = BROADCAST(rows[r * n_steps + step]);                                         \
                    for (int g = 0; g < n_groups; g++) sums[g][r] = ADD_PRODUCT(sums[g][r], unit, tokens[g]);  \
                }                                                                                              \
            } while (++step < n_steps);                                                                        \
            for (int g = 0; g < n_groups; g++)                                                                 \
                for (int r = 0; r < ROWS; r++) most[g] = MAX(most[g], sums[g][r]);                             \
        }                                                                                                      \
        for (int g = 0; g < n_groups; g++) STORE(best + g * LANES, most[g]);                                   \
    }                                                                                                          \
    TARGET static void NAME(int n_groups, const void *tile, int n_rows, const void *query, int64_t n_steps,    \
                            void *best) {                                                                      \
        if (n_groups == 1) NAME##_groups(1, tile, n_rows, query, n_steps, best);                               \
        if (n_groups == 2) NAME##_groups(2, tile, n_rows, query, n_steps, best);                               \
        if (n_groups == 3) NAME##_groups(3, tile, n_rows, query, n_steps, best);                               \
    }

/* ---- Unpacking --------------------------------------------------------------------------- */

INLINE void put(void *restrict row, const int width, int64_t i, int value) {
    if (width == 1) ((uint8_t *)row)[i] = (uint8_t)value;
    if (width == 2) ((int16_t *)row)[i] = (int16_t)value;
    if (width == 4) ((int32_t *)row)[i] = value;
}

/* Write the components of one vector, `width` bytes each; int8 ones plus `shift`, so that a
 * processor that multiplies bytes without a sign can have them. */
INLINE void unpack_row(const int width, const int shift, const shape *s, const uint8_t *restrict codes,
                       void *restrict row) {
    const int64_t n = s->row_bytes;
    switch (s->coding) {
    case INT8:
        for (int64_t i = 0; i < n; i++) put(row, width, i, (int8_t)codes[i] + shift);
        break;
    case INT4:
        for (int64_t i = 0; i < n; i++) put(row, width, i, codes[i] & 15);
        for (int64_t i = 0; i < n; i++) put(row, width, n + i, codes[i] >> 4);
        break;
    case BINARY:
        for (int64_t i = 0; i < n; i++)
            for (int k = 0; k < 8; k++) put(row, width, 8 * i + k, codes[i] >> k & 1);
        break;
    case SIGNS:
        for (int64_t i = 0; i < n; i++) put(row, width, i, codes[i]);
        break;
    default: /* numbers as they are, whose bits lie in words */
        for (int64_t i = 0; i < n / 4; i++) put(row, width, i, ((const unit32 *)codes)[i]);
    }
}

#define DEFINE_UNPACK(NAME, TARGET, WIDTH, SHIFT, UNPACK_ROW)                                                  \
    TARGET static void NAME(const shape *s, const uint8_t *codes, int n_rows, void *tile) {                    \
        for (int r = 0; r < n_rows; r++)                                                                       \
            UNPACK_ROW(WIDTH, SHIFT, s, codes + r * s->row_bytes, (uint8_t *)tile + r * s->components * WIDTH); \
    }

/* ---- Instruction sets -------------------------------------------------------------------- */

/* How an instruction set multiplies: `unit` bytes at a time, components of `width` bytes. */
typedef struct {
    int lanes, rows, unit, width, shift;
    void (*unpack)(const shape *, const uint8_t *, int, void *);
    void (*pass)(int, const void *, int, const void *, int64_t, void *);
} product;

typedef struct {
    const char *name;
    const product *int8; /* query of int8 */
    const product *bits; /* query of signs */
    const product *floats; /* or NULL */
} instructions;

/* Registers of numbers, by how many. Intrinsics have one type for all, which costs copies. */
typedef int32_t four __attribute__((vector_size(16), may_alias));
typedef int32_t eight __attribute__((vector_size(32), may_alias));
typedef int32_t sixteen __attribute__((vector_size(64), may_alias));
typedef float fourf __attribute__((vector_size(16), may_alias));
typedef float eightf __attribute__((vector_size(32), may_alias));
typedef float sixteenf __attribute__((vector_size(64), may_alias));
typedef int64_t two64 __attribute__((vector_size(16), may_alias));
typedef int64_t four64 __attribute__((vector_size(32), may_alias));
typedef int64_t eight64 __attribute__((vector_size(64), may_alias));

#define NO_TARGET
#define ANY_LOAD(VECTOR, from) (*(const VECTOR *)(from)) /* queries and maxima are aligned to 64 bytes */
#define ANY_STORE(to, v) memcpy(to, &(v), sizeof(v))

/* Portable: registers of four numbers, or what the compiler makes of them. */
#define FOUR_ALL(x) ((four){0} + (x))
#define FOUR_PRODUCT(sum, unit, tokens) ((sum) + (unit) * (tokens))
#define FOUR_MAX(a, b) (((a) & ((a) > (b))) | ((b) & ~((a) > (b))))
DEFINE_PASS(int8_portable, NO_TARGET, unit32, four, 4, 4, ANY_LOAD, ANY_STORE, FOUR_ALL, FOUR_PRODUCT, FOUR_MAX)
DEFINE_UNPACK(unpack_numbers, NO_TARGET, 4, 0, unpack_row)

/* Unpack half precision WIDE numbers at a time, the last ones through a copy padded with zeros. */
#define DEFINE_UNPACK_FLOATS(NAME, TARGET, WIDE, WIDEN)                                                        \
    TARGET static void NAME(const shape *s, const uint8_t *codes, int n_rows, void *tile) {                    \
        for (int r = 0; r < n_rows; r++, codes += s->row_bytes) {                                              \
            float *row = (float *)tile + r * s->components;                                                    \
            if (s->coding == FLOAT32) {                                                                        \
                unpack_row(4, 0, s, codes, row);                                                               \
                continue;                                                                                      \
            }                                                                                                  \
            int64_t i = 0;                                                                                     \
            for (; i + WIDE <= s->dim; i += WIDE) WIDEN(row + i, codes + 2 * i);                               \
            if (i == s->dim) continue;                                                                         \
            uint16_t halves[WIDE] = {0};                                                                       \
            memcpy(halves, codes + 2 * i, 2 * (size_t)(s->dim - i));                                           \
            WIDEN(row + i, halves);                                                                            \
        }                                                                                                      \
    }

#define ONE_LOAD(VECTOR, from) (*(from))
#define ONE_STORE(to, v) (*(to) = (v))
#define ONE_ALL(x) (x)
#define ONE_PRODUCT(sum, unit, tokens) ((sum) - __builtin_popcountll((uint64_t)((unit) ^ (tokens))))
#define ONE_MAX(a, b) ((a) > (b) ? (a) : (b))
DEFINE_PASS(bits_portable, NO_TARGET, unit64, int64_t, 1, 2, ONE_LOAD, ONE_STORE, ONE_ALL, ONE_PRODUCT, ONE_MAX)
DEFINE_UNPACK(unpack_bytes, NO_TARGET, 1, 0, unpack_row)

static const product INT8_PORTABLE = {4, 4, 4, 4, 0, unpack_numbers, int8_portable};
static const product BITS_PORTABLE = {1, 2, 8, 1, 0, unpack_bytes, bits_portable};

#if defined(__x86_64__)

#define AVX2F __attribute__((target("avx2,fma,f16c")))
#define WIDEN_X86(to, halves) \
    _mm256_storeu_ps(to, _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(const void *)(halves))))
DEFINE_UNPACK_FLOATS(unpack_floats_x86, AVX2F, 8, WIDEN_X86)

/* AVX-512: VPDPBUSD adds four products of a byte without and one with a sign. */
#define AVX512 __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")))
#define ALL512(x) (sixteen) _mm512_set1_epi32(x)
#define BYTES512(sum, unit, tokens) (sixteen) _mm512_dpbusd_epi32((__m512i)(sum), (__m512i)(unit), (__m512i)(tokens))
#define MAX512(a, b) (sixteen) _mm512_max_epi32((__m512i)(a), (__m512i)(b))
DEFINE_PASS(int8_avx512, AVX512, unit32, sixteen, 16, 8, ANY_LOAD, ANY_STORE, ALL512, BYTES512, MAX512)

AVX512 INLINE void unpack_row_avx512(const int width, const int shift, const shape *s, const uint8_t *restrict codes,
                                     uint8_t *restrict row) {
    if (s->coding != BINARY) {
        unpack_row(width, shift, s, codes, row);
        return;
    }
    for (int64_t i = 0; i < s->row_bytes; i += 8) { /* 64 bits become a mask, and the mask bytes */
        const int64_t left = s->row_bytes - i < 8 ? s->row_bytes - i : 8;
        uint64_t bits = 0;
        if (left == 8) memcpy(&bits, codes + i, 8);
        else memcpy(&bits, codes + i, (size_t)left);
        _mm512_mask_storeu_epi8(row + 8 * i, ~(uint64_t)0 >> (64 - 8 * left), _mm512_maskz_set1_epi8(bits, 1));
    }
}
DEFINE_UNPACK(unpack_avx512, AVX512, 1, 128, unpack_row_avx512)
static const product INT8_AVX512 = {16, 8, 4, 1, 128, unpack_avx512, int8_avx512};

#define ALLF512(x) (sixteenf) _mm512_set1_ps(x)
#define FLOATS512(sum, unit, tokens) (sixteenf) _mm512_fmadd_ps((__m512)(unit), (__m512)(tokens), (__m512)(sum))
#define MAXF512(a, b) (sixteenf) _mm512_max_ps((__m512)(a), (__m512)(b))
DEFINE_PASS(floats_avx512, AVX512, unitf, sixteenf, 16, 8, ANY_LOAD, ANY_STORE, ALLF512, FLOATS512, MAXF512)
static const product FLOATS_AVX512 = {16, 8, 4, 4, 0, unpack_floats_x86, floats_avx512};

#define POPCNT512 __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx512vpopcntdq")))
#define ALL64_512(x) (eight64) _mm512_set1_epi64(x)
#define BITS512(sum, unit, tokens) ((sum) - (eight64)_mm512_popcnt_epi64((__m512i)((unit) ^ (tokens))))
#define MAX64_512(a, b) (eight64) _mm512_max_epi64((__m512i)(a), (__m512i)(b))
DEFINE_PASS(bits_avx512, POPCNT512, unit64, eight64, 8, 8, ANY_LOAD, ANY_STORE, ALL64_512, BITS512, MAX64_512)
static const product BITS_AVX512 = {8, 8, 8, 1, 0, unpack_bytes, bits_avx512};

/* AVX2: products of 16-bit numbers, because those of bytes are added up in 16 bits and saturate. */
#define AVX2 __attribute__((target("avx2")))
#define ALL256(x) (eight) _mm256_set1_epi32(x)
#define WORDS256(sum, unit, tokens) ((sum) + (eight)_mm256_madd_epi16((__m256i)(unit), (__m256i)(tokens)))
#define MAX256(a, b) (eight) _mm256_max_epi32((__m256i)(a), (__m256i)(b))
DEFINE_PASS(int8_avx2, AVX2, unit32, eight, 8, 4, ANY_LOAD, ANY_STORE, ALL256, WORDS256, MAX256)
DEFINE_UNPACK(unpack_words_avx2, AVX2, 2, 0, unpack_row)
static const product INT8_AVX2 = {8, 4, 4, 2, 0, unpack_words_avx2, int8_avx2};

#define ALLF256(x) (eightf) _mm256_set1_ps(x)
#define FLOATS256(sum, unit, tokens) (eightf) _mm256_fmadd_ps((__m256)(unit), (__m256)(tokens), (__m256)(sum))
#define MAXF256(a, b) (eightf) _mm256_max_ps((__m256)(a), (__m256)(b))
DEFINE_PASS(floats_avx2, AVX2F, unitf, eightf, 8, 4, ANY_LOAD, ANY_STORE, ALLF256, FLOATS256, MAXF256)
static const product FLOATS_AVX2 = {8, 4, 4, 4, 0, unpack_floats_x86, floats_avx2};

AVX2 INLINE four64 bits_of_avx2(four64 sum, four64 unit, four64 tokens) {
    const __m256i counts = _mm256_setr_epi8(0, 1, 1, 2, 1, 2, 2, 3, 1, 2, 2, 3, 2, 3, 3, 4, 0, 1, 1, 2, 1, 2, 2, 3, 1,
                                            2, 2, 3, 2, 3, 3, 4); /* ones of a nibble, twice */
    const __m256i low = _mm256_set1_epi8(15), differ = (__m256i)(unit ^ tokens);
    const __m256i ones = _mm256_add_epi8(
        _mm256_shuffle_epi8(counts, _mm256_and_si256(differ, low)),
        _mm256_shuffle_epi8(counts, _mm256_and_si256(_mm256_srli_epi16(differ, 4), low)));
    return sum - (four64)_mm256_sad_epu8(ones, _mm256_setzero_si256());
}
#define ALL64_256(x) (four64) _mm256_set1_epi64x(x)
#define MAX64_256(a, b) \
    (four64) _mm256_blendv_epi8((__m256i)(b), (__m256i)(a), _mm256_cmpgt_epi64((__m256i)(a), (__m256i)(b)))
DEFINE_PASS(bits_avx2, AVX2, unit64, four64, 4, 4, ANY_LOAD, ANY_STORE, ALL64_256, bits_of_avx2, MAX64_256)
static const product BITS_AVX2 = {4, 4, 8, 1, 0, unpack_bytes, bits_avx2};

/* SSE4.1: the same with half the lanes; signs by a processor's count of one word's bits. */
#define SSE4 __attribute__((target("sse4.1,popcnt")))
#define ALL128(x) (four) _mm_set1_epi32(x)
#define WORDS128(sum, unit, tokens) ((sum) + (four)_mm_madd_epi16((__m128i)(unit), (__m128i)(tokens)))
#define MAX128(a, b) (four) _mm_max_epi32((__m128i)(a), (__m128i)(b))
DEFINE_PASS(int8_sse4, SSE4, unit32, four, 4, 4, ANY_LOAD, ANY_STORE, ALL128, WORDS128, MAX128)
DEFINE_UNPACK(unpack_words_sse4, SSE4, 2, 0, unpack_row)
static const product INT8_SSE4 = {4, 4, 4, 2, 0, unpack_words_sse4, int8_sse4};
DEFINE_PASS(bits_sse4, SSE4, unit64, int64_t, 1, 4, ONE_LOAD, ONE_STORE, ONE_ALL, ONE_PRODUCT, ONE_MAX)
static const product BITS_SSE4 = {1, 4, 8, 1, 0, unpack_bytes, bits_sse4};

/* AVX-VNNI: VPDPBUSD for processors without AVX-512. Older compilers do not know it. */
#if (defined(__clang__) && __clang_major__ >= 12) || (!defined(__clang__) && __GNUC__ >= 11)
#define HAVE_AVXVNNI 1
#define AVXVNNI __attribute__((target("avx2,avxvnni")))
#define BYTES256(sum, unit, tokens) \
    (eight) _mm256_dpbusd_avx_epi32((__m256i)(sum), (__m256i)(unit), (__m256i)(tokens))
DEFINE_PASS(int8_avxvnni, AVXVNNI, unit32, eight, 8, 4, ANY_LOAD, ANY_STORE, ALL256, BYTES256, MAX256)

AVX2 INLINE void unpack_row_avx2(const int width, const int shift, const shape *s, const uint8_t *restrict codes,
                                 uint8_t *restrict row) {
    if (s->coding != BINARY || s->row_bytes % 4) {
        unpack_row(width, shift, s, codes, row);
        return;
    }
    const __m256i repeat = _mm256_setr_epi64x(0, 0x0101010101010101, 0x0202020202020202, 0x0303030303030303);
    const __m256i bit = _mm256_set1_epi64x((int64_t)0x8040201008040201);
    for (int64_t i = 0; i < s->row_bytes; i += 4) { /* 32 bits become bytes of 0 and 1 */
        const __m256i bytes = _mm256_shuffle_epi8(_mm256_set1_epi32(*(const unit32 *)(codes + i)), repeat);
        const __m256i set = _mm256_cmpeq_epi8(_mm256_and_si256(bytes, bit), bit);
        _mm256_storeu_si256((__m256i *)(row + 8 * i), _mm256_and_si256(set, _mm256_set1_epi8(1)));
    }
}
DEFINE_UNPACK(unpack_avx2, AVX2, 1, 128, unpack_row_avx2)
static const product INT8_AVXVNNI = {8, 4, 4, 1, 128, unpack_avx2, int8_avxvnni};

#endif

/* What the processor can do and the system saves the registers of. */
typedef struct {
    int sse4, avx2, avxvnni, avx512, popcnt512;
} abilities;

static abilities detect(void) {
    abilities can = {0};
    unsigned a, b, c, d, b7 = 0, c7 = 0, a71 = 0, saved = 0;
    if (!__get_cpuid(1, &a, &b, &c, &d)) return can;
    const unsigned c1 = c;
    if (__get_cpuid_count(7, 0, &a, &b, &c, &d)) b7 = b, c7 = c;
    if (__get_cpuid_count(7, 1, &a, &b, &c, &d)) a71 = a;
    if (c1 >> 27 & 1) __asm__ volatile("xgetbv" : "=a"(saved), "=d"(d) : "c"(0));
    can.sse4 = (c1 >> 19 & 1) && (c1 >> 23 & 1);                                     /* with POPCNT */
    can.avx2 = (saved & 6) == 6 && (b7 >> 5 & 1) && (c1 >> 12 & 1) && (c1 >> 29 & 1); /* with FMA and F16C */
    can.avxvnni = can.avx2 && (a71 >> 4 & 1);
    const unsigned f_dq_bw_vl = 1u << 16 | 1u << 17 | 1u << 30 | 1u << 31;
    can.avx512 = can.avx2 && (saved & 0xe6) == 0xe6 && (b7 & f_dq_bw_vl) == f_dq_bw_vl && (c7 >> 11 & 1); /* VNNI */
    can.popcnt512 = can.avx512 && (c7 >> 14 & 1);
    return can;
}

#elif defined(__aarch64__)

INLINE four int16_of_neon(four sum, four unit, four tokens) {
    const int16x8_t a = (int16x8_t)unit, b = (int16x8_t)tokens;
    return sum + (four)vpaddq_s32(vmull_s16(vget_low_s16(a), vget_low_s16(b)), vmull_high_s16(a, b));
}
#define ALL_NEON(x) (four) vdupq_n_s32(x)
#define MAX_NEON(a, b) (four) vmaxq_s32((int32x4_t)(a), (int32x4_t)(b))
DEFINE_PASS(int8_neon, NO_TARGET, unit32, four, 4, 4, ANY_LOAD, ANY_STORE, ALL_NEON, int16_of_neon, MAX_NEON)
DEFINE_UNPACK(unpack_words, NO_TARGET, 2, 0, unpack_row)
static const product INT8_NEON = {4, 4, 4, 2, 0, unpack_words, int8_neon};

#define WIDEN_NEON(to, halves) vst1q_f32(to, vcvt_f32_f16(vreinterpret_f16_u8(vld1_u8((const uint8_t *)(halves)))))
DEFINE_UNPACK_FLOATS(unpack_floats_neon, NO_TARGET, 4, WIDEN_NEON)
#define ALLF_NEON(x) (fourf) vdupq_n_f32(x)
#define FLOATS_NEON_(sum, unit, tokens) \
    (fourf) vfmaq_f32((float32x4_t)(sum), (float32x4_t)(unit), (float32x4_t)(tokens))
#define MAXF_NEON(a, b) (fourf) vmaxq_f32((float32x4_t)(a), (float32x4_t)(b))
DEFINE_PASS(floats_neon, NO_TARGET, unitf, fourf, 4, 8, ANY_LOAD, ANY_STORE, ALLF_NEON, FLOATS_NEON_, MAXF_NEON)
static const product FLOATS_NEON = {4, 8, 4, 4, 0, unpack_floats_neon, floats_neon};

INLINE two64 bits_of_neon(two64 sum, two64 unit, two64 tokens) {
    const uint8x16_t ones = vcntq_u8((uint8x16_t)(unit ^ tokens));
    return sum - (two64)vpaddlq_u32(vpaddlq_u16(vpaddlq_u8(ones)));
}
#define ALL64_NEON(x) (two64) vdupq_n_s64(x)
#define MAX64_NEON(a, b) \
    (two64) vbslq_s64(vcgtq_s64((int64x2_t)(a), (int64x2_t)(b)), (int64x2_t)(a), (int64x2_t)(b))
DEFINE_PASS(bits_neon, NO_TARGET, unit64, two64, 2, 8, ANY_LOAD, ANY_STORE, ALL64_NEON, bits_of_neon, MAX64_NEON)
static const product BITS_NEON = {2, 8, 8, 1, 0, unpack_bytes, bits_neon};

/* SDOT adds four products of bytes with a sign. */
#if defined(__clang__)
#define DOTPROD __attribute__((target("dotprod")))
#else
#define DOTPROD __attribute__((target("arch=armv8.2-a+dotprod")))
#endif
#define BYTES_NEON(sum, unit, tokens) \
    (four) vdotq_s32((int32x4_t)(sum), (int8x16_t)(unit), (int8x16_t)(tokens))
DEFINE_PASS(int8_dotprod, DOTPROD, unit32, four, 4, 8, ANY_LOAD, ANY_STORE, ALL_NEON, BYTES_NEON, MAX_NEON)
static const product INT8_DOTPROD = {4, 8, 4, 1, 0, unpack_bytes, int8_dotprod};

static int has_dotprod(void) {
#if defined(__APPLE__)
    return 1; /* every Apple processor of this kind */
#elif defined(__linux__)
    return getauxval(AT_HWCAP) >> 20 & 1; /* HWCAP_ASIMDDP */
#else
    return 0;
#endif
}
#endif

/* List the instruction sets of this processor, the best first; return their number. */
static int available(instructions all[MAX_INSTRUCTIONS]) {
    instructions *next = all;
#if defined(__x86_64__)
    const abilities can = detect();
    if (can.popcnt512) *next++ = (instructions){"avx512", &INT8_AVX512, &BITS_AVX512, &FLOATS_AVX512};
    if (can.avx512) *next++ = (instructions){"avx512vnni", &INT8_AVX512, &BITS_AVX2, &FLOATS_AVX512};
#if defined(HAVE_AVXVNNI)
    if (can.avxvnni) *next++ = (instructions){"avxvnni", &INT8_AVXVNNI, &BITS_AVX2, &FLOATS_AVX2};
#endif
    if (can.avx2) *next++ = (instructions){"avx2", &INT8_AVX2, &BITS_AVX2, &FLOATS_AVX2};
    if (can.sse4) *next++ = (instructions){"sse4", &INT8_SSE4, &BITS_SSE4, NULL};
#elif defined(__aarch64__)
    if (has_dotprod()) *next++ = (instructions){"dotprod", &INT8_DOTPROD, &BITS_NEON, &FLOATS_NEON};
    *next++ = (instructions){"neon", &INT8_NEON, &BITS_NEON, &FLOATS_NEON};
#endif
    *next++ = (instructions){"portable", &INT8_PORTABLE, &BITS_PORTABLE, NULL};
    return (int)(next - all);
}

/* ---- Pages ------------------------------------------------------------------------------- */

static int64_t round_up(int64_t n, int64_t multiple) { return (n + multiple - 1) / multiple * multiple; }

/* Lay tokens out as groups x steps x lanes units; missing ones and padding are zero. */
static void pack_query(const product *p, const void *query, int floats, int64_t n_tokens, int64_t n_components,
                       int64_t n_steps, uint8_t *packed) {
    const int64_t per_unit = p->unit / p->width;
    for (int64_t t = 0; t < n_tokens; t++)
        for (int64_t i = 0; i < n_components; i++) {
            const int64_t unit = (t / p->lanes * n_steps + i / per_unit) * p->lanes + t % p->lanes;
            const int64_t from = t * n_components + i;
            const int value = floats ? ((const unit32 *)query)[from] : ((const int8_t *)query)[from];
            put(packed + unit * p->unit, p->width, i % per_unit, value);
        }
}

/* Update `best` by all vectors of a page. */
static void scan_page(const product *p, const shape *s, const uint8_t *codes, int64_t n_vectors, const uint8_t *query,
                      int64_t n_groups, uint8_t *tile, uint8_t *best) {
    const int64_t n_steps = s->components * p->width / p->unit, row = s->components * p->width;
    const int64_t n_passes = (n_groups + MAX_GROUPS - 1) / MAX_GROUPS;
    const int as_they_are = row == s->row_bytes && (s->coding >= SIGNS || (s->coding == INT8 && !p->shift));
    for (int64_t first = 0; first < n_vectors; first += TILE_ROWS) {
        int n_rows = (int)(n_vectors - first < TILE_ROWS ? n_vectors - first : TILE_ROWS);
        const uint8_t *rows = codes + first * s->row_bytes;
        if (!as_they_are || n_rows % p->rows) {
            p->unpack(s, rows, n_rows, tile);
            for (; n_rows % p->rows; n_rows++) /* the last row once more: a maximum does not mind */
                memcpy(tile + n_rows * row, tile + (n_rows - 1) * row, (size_t)row);
            rows = tile;
        }
        for (int64_t pass = 0, g = 0; pass < n_passes; pass++) {
            const int64_t end = (pass + 1) * n_groups / n_passes, at = g * p->lanes * p->unit;
            p->pass((int)(end - g), rows, n_rows, query + at * n_steps, n_steps, best + at);
            g = end;
        }
    }
}

/* Start `best` below any product; of floats the bits of minus infinity. */
static void reset(const product *p, int floats, int64_t n, uint8_t *best) {
    for (int64_t i = 0; i < n; i++)
        if (p->unit == 8) ((unit64 *)best)[i] = INT64_MIN;
        else ((unit32 *)best)[i] = floats ? (int32_t)0xff800000 : INT32_MIN;
}

/* Return what is to be added to a token's products: of 2c - 15 the 15, and so on. */
static int64_t shift_of(const product *p, int coding, const void *query, int64_t token, int64_t dim) {
    if (coding == SIGNS) return dim;
    if (coding >= FLOAT16) return 0;
    int64_t total = 0;
    for (int64_t i = 0; i < dim; i++) total += ((const int8_t *)query)[token * dim + i];
    return -total * (coding == INT8 ? p->shift : coding == INT4 ? 15 : 1);
}

/* Return a token's largest product; of floats its bits. */
static int64_t best_of(const product *p, const uint8_t *best, int64_t token) {
    return p->unit == 8 ? ((const unit64 *)best)[token] : ((const unit32 *)best)[token];
}

/* The instruction sets of this processor, found once: asking it takes a virtual machine 50 microseconds. */
static instructions found[MAX_INSTRUCTIONS];
static int n_found;

__attribute__((constructor)) static void find_instructions(void) { n_found = available(found); }

/* Return which interface this is, so that a library of another version is not used. */
EXPORT int colret_interface(void) { return 1; }

/* Return the name of the `level`th instruction set of this processor, the best first, or NULL. */
EXPORT const char *colret_instructions(int level) {
    return level < n_found ? found[level].name : NULL;
}

/* Tell whether the `level`th instruction set multiplies FLOAT16 and FLOAT32. */
EXPORT int colret_has_floats(int level) {
    return level < n_found && found[level].floats;
}

/* Find, for each page asked for and each token, the largest product with the page's vectors.
 *
 * level      which instruction set, from colret_instructions
 * coding     of the pages; for SIGNS they are BINARY, and a product is the dimensions that agree
 *            minus those that do not
 * query      (n_tokens, dim) int8 from -127 to 127; for SIGNS (n_tokens, ceil(dim / 8)) bits; for
 *            FLOAT16 and FLOAT32 (n_tokens, dim) float
 * codes      of all pages, one vector after the other
 * offsets    page i has the vectors offsets[i] to offsets[i + 1], at least one
 * pages      (n_pages) which pages
 * out        (n_pages, n_tokens) int32, for FLOAT16 and FLOAT32 float; or NULL
 * sums       (n_pages) int64, the sum of each page's row of integers, or NULL
 *
 * Return 0, or 1 if there is no memory or no such product.
 */
EXPORT int colret_best_products(int level, int coding, const void *query, int64_t n_tokens, int64_t dim,
                                const uint8_t *codes, const int64_t *offsets, const int64_t *pages, int64_t n_pages,
                                int32_t *out, int64_t *sums) {
    if (level >= n_found) return 1;
    const int floats = coding >= FLOAT16;
    const product *p = floats ? found[level].floats : coding == SIGNS ? found[level].bits : found[level].int8;
    if (!p) return 1;
    const int64_t bits = (dim + 7) / 8, n_components = coding == SIGNS ? bits : dim;
    const int64_t row_bytes[] = {dim, (dim + 1) / 2, bits, bits, 2 * dim, 4 * dim};
    const shape s = {(enum coding)coding, dim, row_bytes[coding], round_up(n_components, 8)};
    const int64_t n_steps = s.components * p->width / p->unit, n_groups = (n_tokens + p->lanes - 1) / p->lanes;
    const int64_t query_bytes = round_up(n_groups * n_steps * p->lanes * p->unit, 64);
    const int64_t tile_bytes = round_up(TILE_ROWS * s.components * p->width, 64);
    const int64_t best_bytes = round_up(n_groups * p->lanes * p->unit, 64);

    uint8_t *memory = calloc((size_t)(query_bytes + tile_bytes + best_bytes + n_tokens * 8 + 64), 1);
    if (!memory) return 1;
    uint8_t *packed = memory + (64 - (uintptr_t)memory % 64), *tile = packed + query_bytes, *best = tile + tile_bytes;
    int64_t *shifts = (int64_t *)(best + best_bytes); /* what a token's products are off by */
    pack_query(p, query, floats, n_tokens, n_components, n_steps, packed);
    const int64_t factor = coding == INT8 || floats ? 1 : 2;
    for (int64_t t = 0; t < n_tokens; t++) shifts[t] = shift_of(p, coding, query, t, dim);

    for (int64_t i = 0; i < n_pages; i++) {
        const int64_t first = offsets[pages[i]], n_vectors = offsets[pages[i] + 1] - first;
        reset(p, floats, n_groups * p->lanes, best);
        scan_page(p, &s, codes + first * s.row_bytes, n_vectors, packed, n_groups, tile, best);
        int64_t sum = 0;
        for (int64_t t = 0; t < n_tokens; t++) {
            const int64_t value = factor * best_of(p, best, t) + shifts[t];
            if (out) out[i * n_tokens + t] = (int32_t)value;
            sum += value;
        }
        if (sums) sums[i] = sum;
    }
    free(memory);
    return 0;
}
