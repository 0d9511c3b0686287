! SPDX-License-Identifier: GPL-2.0
! A Fortran program for mpi_preload.sh, whose calls do not come by the C functions' public names:
! sums of its types, in place and non-blocking, a broadcast, a barrier.
program mpi_fortran
	use mpi
	implicit none
	integer, parameter :: n = 3001
	integer :: rank, ranks, bad, all_bad, i, err, request
	integer :: whole(n), wholes(n)
	real :: x(n), y(n), z(n)
	double precision :: d(n)

	call MPI_Init(err)
	call MPI_Comm_rank(MPI_COMM_WORLD, rank, err)
	call MPI_Comm_size(MPI_COMM_WORLD, ranks, err)
	call MPI_Barrier(MPI_COMM_WORLD, err)
	bad = 0
	whole = [(i * (rank + 1), i = 1, n)]
	x = real(whole)
	d = dble(whole)
	z = x
	call MPI_Allreduce(whole, wholes, n, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD, err)
	call MPI_Iallreduce(x, y, n, MPI_REAL, MPI_SUM, MPI_COMM_WORLD, request, err)
	call MPI_Wait(request, MPI_STATUS_IGNORE, err)
	call MPI_Allreduce(MPI_IN_PLACE, d, n, MPI_DOUBLE_PRECISION, MPI_SUM, MPI_COMM_WORLD, err)
	call MPI_Bcast(z, n, MPI_REAL, ranks - 1, MPI_COMM_WORLD, err)
	do i = 1, n
		if (wholes(i) /= i * ranks * (ranks + 1) / 2) bad = bad + 1
		if (y(i) /= real(wholes(i)) .or. d(i) /= dble(wholes(i))) bad = bad + 1
		if (z(i) /= real(i * ranks)) bad = bad + 1
	end do
	call MPI_Reduce(bad, all_bad, 1, MPI_INTEGER, MPI_SUM, 0, MPI_COMM_WORLD, err)
	if (rank == 0) print '(I0, A, I0, A)', ranks, ' ranks: ', all_bad, ' bad'
	call MPI_Finalize(err)
end program
