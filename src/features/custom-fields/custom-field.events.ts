import { z } from 'zod';
import { topic } from '../../platform/cluster/cluster-events.ts';

/** A custom field was redefined or deleted, so conditions may read its values as another type. */
export const CUSTOM_FIELD_CHANGED = topic(
  'custom_field_changed',
  z.object({ orgId: z.string(), key: z.string() }),
);
