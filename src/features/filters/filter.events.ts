import { z } from 'zod';
import { topic } from '../../platform/cluster/cluster-events.ts';

/** The conditions of a saved filter have changed, or it was deleted. */
export const FILTER_CHANGED = topic('filter_changed', z.object({ filterId: z.string() }));
