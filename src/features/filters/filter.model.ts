import { BaseModel } from '../../platform/db/base-model.ts';
import { z } from 'zod';
import { topic } from '../../platform/cluster/cluster-events.ts';

/** The conditions of a saved filter have changed, or it was deleted. */
export const FILTER_CHANGED = topic('filter_changed', z.object({ filterId: z.string() }));

export class SavedFilter extends BaseModel {
  static override tableName = 'saved_filters';
  declare orgId: string;
  declare name: string;
  declare description: string | null;
  /** JSON, of any depth. */
  declare conditions: string;
  declare createdBy: string | null;
}
