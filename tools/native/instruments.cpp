// The judge's own measuring instruments, a shared object called through ctypes by trusted processes only:
// cache flush, peak bandwidth, peak multiply-add rate, and a fast look at an output's errors. Sizes are bytes, rates per second.
#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <ctime>
#include <limits>
#include <omp.h>
#include <sched.h>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace {

constexpr size_t kLine = 64;

double now() {
    timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

#if defined(__x86_64__)
__attribute__((target("clflushopt"))) void flush_weakly_ordered(const char* first, const char* last) {
    for (const char* p = first; p < last; p += kLine) _mm_clflushopt(const_cast<char*>(p));
    _mm_sfence();
}
#endif

void flush_lines(const char* first, const char* last) {
    first = reinterpret_cast<const char*>(reinterpret_cast<uintptr_t>(first) & ~(kLine - 1));
#if defined(__x86_64__)
    unsigned eax = 7, ebx = 0, ecx = 0, edx = 0;
    __asm__ volatile("cpuid" : "+a"(eax), "=b"(ebx), "+c"(ecx), "=d"(edx));
    if (ebx & (1u << 23)) {
        flush_weakly_ordered(first, last);
    } else {
        for (const char* p = first; p < last; p += kLine) _mm_clflush(p);
    }
    _mm_mfence();
#elif defined(__aarch64__)
    for (const char* p = first; p < last; p += kLine) __asm__ volatile("dc civac, %0" ::"r"(p) : "memory");
    __asm__ volatile("dsb sy" ::: "memory");
#else
    std::atomic_thread_fence(std::memory_order_seq_cst);
#endif
}

#if defined(__AVX512F__)
constexpr size_t kWidth = 64;
#elif defined(__AVX__)
constexpr size_t kWidth = 32;
#else
constexpr size_t kWidth = 16;
#endif

typedef double DoubleVector __attribute__((vector_size(kWidth)));
typedef float FloatVector __attribute__((vector_size(kWidth)));
typedef long long IntVector __attribute__((vector_size(kWidth)));

void read_part(const char* from, size_t bytes) {
    const IntVector* p = reinterpret_cast<const IntVector*>(from);
    const size_t count = bytes / sizeof(IntVector);
    IntVector a{}, b{}, c{}, d{};
    for (size_t i = 0; i + 4 <= count; i += 4) {
        a ^= p[i];
        b ^= p[i + 1];
        c ^= p[i + 2];
        d ^= p[i + 3];
    }
    a ^= b ^ c ^ d;
    __asm__ volatile("" ::"m"(a) : "memory");
}

// Eight streams far apart and prefetched by hand: one stream alone leaves the core's miss buffers half empty.
void read_streams_part(const char* from, size_t bytes) {
    constexpr size_t kStreams = 8;
    const size_t length = bytes / kStreams & ~(kLine - 1);
    IntVector sum{};
    for (size_t i = 0; i + sizeof(IntVector) <= length; i += kLine) {
        for (size_t s = 0; s < kStreams; ++s) {
            const char* p = from + s * length + i;
            __builtin_prefetch(p + 1024, 0, 3);
            for (size_t part = 0; part < kLine; part += sizeof(IntVector)) {
                sum ^= *reinterpret_cast<const IntVector*>(p + part);
            }
        }
    }
    __asm__ volatile("" ::"m"(sum) : "memory");
}

void copy_part(char* to, const char* from, size_t bytes) {
    const IntVector* p = reinterpret_cast<const IntVector*>(from);
    IntVector* q = reinterpret_cast<IntVector*>(to);
    for (size_t i = 0; i < bytes / sizeof(IntVector); ++i) {
        q[i] = p[i];
        __asm__ volatile("" ::: "memory");
    }
}

void write_part(char* to, size_t bytes) {
    IntVector* q = reinterpret_cast<IntVector*>(to);
    IntVector value{};
    for (size_t i = 0; i < bytes / sizeof(IntVector); ++i) {
        q[i] = value;
        __asm__ volatile("" ::: "memory");
    }
}

inline void stream_store(IntVector* q, IntVector value) {
#if defined(__AVX512F__)
    _mm512_stream_si512(reinterpret_cast<__m512i*>(q), reinterpret_cast<__m512i&>(value));
#elif defined(__AVX__)
    _mm256_stream_si256(reinterpret_cast<__m256i*>(q), reinterpret_cast<__m256i&>(value));
#elif defined(__x86_64__)
    _mm_stream_si128(reinterpret_cast<__m128i*>(q), reinterpret_cast<__m128i&>(value));
#else
    *q = value;
#endif
}

void stream_copy_part(char* to, const char* from, size_t bytes) {
    const IntVector* p = reinterpret_cast<const IntVector*>(from);
    IntVector* q = reinterpret_cast<IntVector*>(to);
    for (size_t i = 0; i < bytes / sizeof(IntVector); ++i) stream_store(q + i, p[i]);
}

void stream_write_part(char* to, size_t bytes) {
    IntVector* q = reinterpret_cast<IntVector*>(to);
    for (size_t i = 0; i < bytes / sizeof(IntVector); ++i) stream_store(q + i, IntVector{});
}

enum Pattern : int { kRead = 0, kReadStreams = 1, kCopy = 2, kStreamCopy = 3, kWrite = 4, kStreamWrite = 5 };

void run_pattern(int pattern, char* to, const char* from, size_t bytes) {
    switch (pattern) {
        case kRead: read_part(from, bytes); break;
        case kReadStreams: read_streams_part(from, bytes); break;
        case kCopy: copy_part(to, from, bytes); break;
        case kStreamCopy: stream_copy_part(to, from, bytes); break;
        case kWrite: write_part(to, bytes); break;
        default: stream_write_part(to, bytes); break;
    }
}

// Pins the calling thread to its own core while it lives. Two threads of one team that start on one core can stay there for
// longer than a whole measurement, since a thread that spins at a barrier does not look movable.
class Pinned {
  public:
    explicit Pinned(const cpu_set_t& allowed) : allowed_(allowed) {
        int skip = omp_get_thread_num() % CPU_COUNT(&allowed), cpu = 0;
        while (!CPU_ISSET(cpu, &allowed) || skip-- > 0) ++cpu;
        cpu_set_t one;
        CPU_ZERO(&one);
        CPU_SET(cpu, &one);
        sched_setaffinity(0, sizeof one, &one);
    }
    ~Pinned() { sched_setaffinity(0, sizeof allowed_, &allowed_); }

  private:
    const cpu_set_t allowed_;
};

cpu_set_t allowed_cpus() {
    cpu_set_t set;
    CPU_ZERO(&set);
    sched_getaffinity(0, sizeof set, &set);
    return set;
}

// Twelve independent chains hide the multiply-add latency of every core we know (5 cycles x 2 units).
template <typename Vector, typename Element>
double multiply_adds(long iterations) {
    constexpr int kChains = 12;
    Vector acc[kChains];
    for (int c = 0; c < kChains; ++c) acc[c] = Vector{} + static_cast<Element>(c);
    Vector scale = Vector{} + static_cast<Element>(0.999), shift = Vector{} + static_cast<Element>(0.001);
    __asm__ volatile("" : "+x"(scale), "+x"(shift));
    for (long i = 0; i < iterations; ++i) {
#pragma GCC unroll 12
        for (int c = 0; c < kChains; ++c) acc[c] = acc[c] * scale + shift;
    }
    for (int c = 0; c < kChains; ++c) __asm__ volatile("" ::"m"(acc[c]) : "memory");
    return 2.0 * kChains * static_cast<double>(sizeof(Vector) / sizeof(Element)) * static_cast<double>(iterations);
}

template <typename Vector, typename Element>
double peak_rate(double seconds) {
    const cpu_set_t allowed = allowed_cpus();
    const double start = now();
    double best = 0, total = 0;
    long iterations = 20000;
    do {
        total = 0;
        double first = 1e300, last = 0;
#pragma omp parallel reduction(+ : total) reduction(min : first) reduction(max : last)
        {
            const Pinned pinned(allowed);
#pragma omp barrier
            first = now();
            total += multiply_adds<Vector, Element>(iterations);
            last = now();
        }
        best = std::max(best, total / (last - first));
        if (last - first < 0.001) iterations *= 2;
    } while (now() - start < seconds);
    return best;
}

// Largest |actual - oracle| / (floor x scale), where scale is the largest of |oracle|, the root mean square of the element's
// slice of `length` elements (a short last slice repeats its last element) and `quiet` times that of the whole array.
// Infinity where anything is not finite. One thread: a team would spin on into the next timing.
template <typename Element>
double share_of_floor(const Element* actual, const double* oracle, size_t count, size_t length, double floor, double quiet) {
    double total = 0, worst = 0;
#pragma omp simd reduction(+ : total)
    for (size_t i = 0; i < count; ++i) total += oracle[i] * oracle[i];
    const double least = quiet * std::sqrt(total / static_cast<double>(count));
    if (!std::isfinite(least)) return std::numeric_limits<double>::infinity();
    for (size_t begin = 0; begin < count; begin += length) {
        const size_t end = std::min(count, begin + length);
        double squares = 0;
#pragma omp simd reduction(+ : squares)
        for (size_t i = begin; i < end; ++i) squares += oracle[i] * oracle[i];
        squares += static_cast<double>(begin + length - end) * oracle[end - 1] * oracle[end - 1];
        const double rms = std::max(least, std::sqrt(squares / static_cast<double>(length)));
        bool comparable = true;
#pragma omp simd reduction(max : worst) reduction(&& : comparable)
        for (size_t i = begin; i < end; ++i) {
            const double error = std::fabs(static_cast<double>(actual[i]) - oracle[i]);
            const double tolerance = floor * std::max(rms, std::fabs(oracle[i]));
            comparable = comparable && error <= std::numeric_limits<double>::max();
            worst = std::max(worst, error / (tolerance > 0 ? tolerance : std::numeric_limits<double>::min()));
        }
        if (!comparable) return std::numeric_limits<double>::infinity();
    }
    return worst;
}

}  // namespace

// See share_of_floor: how much of the tolerance that is granted in any case an output uses.
extern "C" double instrument_share_of_floor32(const float* actual, const double* oracle, size_t count, size_t length,
                                              double floor, double quiet) {
    return share_of_floor(actual, oracle, count, length, floor, quiet);
}
extern "C" double instrument_share_of_floor64(const double* actual, const double* oracle, size_t count, size_t length,
                                              double floor, double quiet) {
    return share_of_floor(actual, oracle, count, length, floor, quiet);
}

// Evict `bytes` at `address` from every cache of the machine (data that is shared with other processes too).
extern "C" void instrument_flush(const void* address, size_t bytes) {
    const char* first = static_cast<const char*>(address);
    if (bytes > 0) flush_lines(first, first + bytes);
}

// Best rate, over `repeats` runs on flushed buffers, of one pattern on `bytes` of each buffer with all cores.
// A copy counts what it reads and what it writes. Buffers are aligned to 4096.
extern "C" double instrument_bandwidth(int pattern, void* to, const void* from, size_t bytes, int repeats) {
    char* const target = static_cast<char*>(to);
    const char* const source = static_cast<const char*>(from);
    const double moved = static_cast<double>(bytes) * ((pattern == kCopy || pattern == kStreamCopy) ? 2.0 : 1.0);
    const cpu_set_t allowed = allowed_cpus();
    double best = 0;
    for (int r = 0; r < repeats; ++r) {
        double first = 1e300, last = 0;
#pragma omp parallel reduction(min : first) reduction(max : last)
        {
            const Pinned pinned(allowed);
            const size_t threads = static_cast<size_t>(omp_get_num_threads());
            const size_t self = static_cast<size_t>(omp_get_thread_num());
            const size_t part = (bytes / threads) & ~static_cast<size_t>(4095);
            char* const my_target = target + self * part;
            const char* const my_source = source + self * part;
            flush_lines(my_target, my_target + part);
            flush_lines(my_source, my_source + part);
#pragma omp barrier
            first = now();
            run_pattern(pattern, my_target, my_source, part);
#if defined(__x86_64__)
            _mm_sfence();
#endif
            last = now();
        }
        const size_t threads = static_cast<size_t>(omp_get_max_threads());
        const double share = static_cast<double>(((bytes / threads) & ~static_cast<size_t>(4095)) * threads) /
                             static_cast<double>(bytes);
        best = std::max(best, moved * share / (last - first));
    }
    return best;
}

// Multiply-adds count 2. Runs for about `seconds` on all cores and returns the best short span.
extern "C" double instrument_peak_float64(double seconds) { return peak_rate<DoubleVector, double>(seconds); }
extern "C" double instrument_peak_float32(double seconds) { return peak_rate<FloatVector, float>(seconds); }

// 0 where the processor has no half-precision arithmetic.
extern "C" double instrument_peak_float16(double seconds) {
#if defined(__AVX512FP16__) || defined(__ARM_FEATURE_FP16_VECTOR_ARITHMETIC)
    typedef _Float16 HalfVector __attribute__((vector_size(kWidth)));
    return peak_rate<HalfVector, _Float16>(seconds);
#else
    (void)seconds;
    return 0;
#endif
}

extern "C" int instrument_threads() { return omp_get_max_threads(); }
