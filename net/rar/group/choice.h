/* SPDX-License-Identifier: GPL-2.0 */
#ifndef _RAR_GROUP_CHOICE_H
#define _RAR_GROUP_CHOICE_H

#include <linux/rar_wire.h>
#include <linux/types.h>

struct rar_choice;
struct rar_member;
struct rar_table_hdr;

void rar_choice_make(const struct rar_member *m, bool paired,
		     struct rar_choice *choice);
void rar_choice_to_wire(const struct rar_choice *choice,
			struct rar_table_hdr *th);
void rar_choice_from_wire(const struct rar_member *m,
			  const struct rar_table_hdr *th,
			  struct rar_choice *choice);
void rar_choice_take(struct rar_member *m);
enum rar_wire_way rar_choice_way(const struct rar_member *m, u8 collective,
				 bool ordered, u64 bytes);
u32 rar_choice_below(const struct rar_member *m, u8 collective);

#endif /* _RAR_GROUP_CHOICE_H */
