#include <cstdio>
#include <mma.h>
using namespace nvcuda;
__global__ void scale(float*y,long n){long i=blockIdx.x*256L+threadIdx.x;
 if(i<n)y[i]=y[i]*2;}
__global__ void mm(half*a,float*c){wmma::fragment<wmma::matrix_a,16,16,16,half,wmma::row_major>A;wmma::fragment<wmma::matrix_b,16,16,16,half,wmma::col_major>B;wmma::fragment<wmma::accumulator,16,16,16,float>C;
 wmma::fill_fragment(C,0);wmma::load_matrix_sync(A,a,16);wmma::load_matrix_sync(B,a,16);
 for(int i=0;i<4096;i++)wmma::mma_sync(C,A,B,C);
 wmma::store_matrix_sync(c,C,16,wmma::mem_row_major);}
int main(int k,char**v){float*y;cudaMalloc(&y,1<<28);for(int i=0;i<3;i++)scale<<<1<<18,256>>>(y,1<<26);mm<<<1056,256>>>((half*)y,y);
 printf("done %d\n",cudaDeviceSynchronize());if(k>1)abort();return 3;}
