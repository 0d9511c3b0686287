/* SPDX-License-Identifier: GPL-2.0 */
#ifndef _RAR_RX_HOOK_H
#define _RAR_RX_HOOK_H

#include "rar.h"

unsigned int rar_hook_ingress(void *priv, struct sk_buff *skb,
			      const struct nf_hook_state *state);
unsigned int rar_hook_input(void *priv, struct sk_buff *skb,
			    const struct nf_hook_state *state);

#endif /* _RAR_RX_HOOK_H */
