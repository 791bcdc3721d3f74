import { BaseModel } from '../../platform/db/base-model.ts';

export class SavedFilter extends BaseModel {
  static override tableName = 'saved_filters';
  declare orgId: string;
  declare name: string;
  declare description: string | null;
  /** JSON, of any depth. */
  declare conditions: string;
  declare createdBy: string | null;
}
