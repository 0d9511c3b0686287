// SPDX-License-Identifier: GPL-2.0
/*
 * mmap(): a read-only page with the counters of the socket's member.
 *
 * The page is made by the first mmap(). A mapping refers to a file of its own, which holds the
 * page, and not to the socket: so close() closes the socket also while the page is mapped,
 * here or in a child.
 */
#include <linux/anon_inodes.h>
#include <linux/fs.h>
#include <linux/mm.h>

#include "core/compat.h"
#include "core/counters.h"
#include "sock/mmap.h"
#include "sock/sock.h"

/**
 * rar_mmap_set_member() - exchange the member of a socket, which alone writes to the page
 * @rsk: socket, locked
 * @m:   the new member, or NULL
 */
void rar_mmap_set_member(struct rar_sock *rsk, struct rar_member *m)
{
	struct rar_member *old;

	spin_lock(&rsk->counters_lock);
	old = rcu_dereference_protected(rsk->member, lockdep_is_held(&rsk->counters_lock));
	rcu_assign_pointer(rsk->member, m);
	if (rsk->counters && old)
		rar_counters_show(old, NULL);
	if (rsk->counters && m)
		rar_counters_show(m, page_address(rsk->counters));
	spin_unlock(&rsk->counters_lock);
}

/* Give up the page of a socket that is closed and has no member any more. */
void rar_mmap_end(struct rar_sock *rsk)
{
	if (rsk->counters)
		put_page(rsk->counters);
	rsk->counters = NULL;
}

/* Make the page, unless another thread was faster. */
static int make_page(struct rar_sock *rsk)
{
	struct page *page = alloc_page(GFP_KERNEL_ACCOUNT | __GFP_ZERO);
	struct rar_counters *counters;
	struct rar_member *m;

	if (!page)
		return -ENOMEM;
	counters = page_address(page);
	counters->version = RAR_COUNTERS_VERSION;
	counters->size = sizeof(*counters);
	spin_lock(&rsk->counters_lock);
	if (!rsk->counters) {
		rsk->counters = page;
		page = NULL;
		m = rcu_dereference_protected(rsk->member,
					      lockdep_is_held(&rsk->counters_lock));
		if (m)
			rar_counters_show(m, counters);
	}
	spin_unlock(&rsk->counters_lock);
	if (page)
		put_page(page);
	return 0;
}

static vm_fault_t page_fault(struct vm_fault *vmf)
{
	struct page *page = vmf->vma->vm_file->private_data;

	if (vmf->pgoff)
		return VM_FAULT_SIGBUS;
	get_page(page);
	vmf->page = page;
	return 0;
}

static const struct vm_operations_struct page_vm_ops = {
	.fault	= page_fault,
};

static int page_release(struct inode *inode, struct file *file)
{
	put_page(file->private_data);
	return 0;
}

static const struct file_operations page_fops = {
	.owner	 = THIS_MODULE,
	.release = page_release,
};

/* Let the mapping refer to a file that holds only the page. */
static int set_file(struct vm_area_struct *vma, struct page *page)
{
	struct file *file;

	get_page(page);
	file = anon_inode_getfile("[rar]", &page_fops, page, O_RDONLY);
	if (IS_ERR(file)) {
		put_page(page);
		return PTR_ERR(file);
	}
	vma_set_file(vma, file);
	fput(file);
	return 0;
}

/*
 * mmap() of a socket. The caller holds the lock of its address space, so neither the socket
 * nor its calls are locked here.
 */
int rar_mmap(struct file *file, struct socket *sock, struct vm_area_struct *vma)
{
	struct rar_sock *rsk = rar_sk(sock->sk);
	int err;

	if (vma->vm_pgoff || vma->vm_end - vma->vm_start != PAGE_SIZE ||
	    !(vma->vm_flags & VM_SHARED))
		return -EINVAL;
	if (vma->vm_flags & VM_WRITE)
		return -EACCES;
	err = READ_ONCE(rsk->counters) ? 0 : make_page(rsk);
	if (!err)
		err = set_file(vma, rsk->counters);
	if (err)
		return err;
	vm_flags_mod(vma, VM_DONTEXPAND, VM_MAYWRITE | VM_MAYEXEC);
	vma->vm_ops = &page_vm_ops;
	return 0;
}
