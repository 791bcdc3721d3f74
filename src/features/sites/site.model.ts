import { BaseModel } from '../../platform/db/base-model.ts';

export class Site extends BaseModel {
  static override tableName = 'sites';
  static override jsonAttributes = ['address', 'contact', 'settings'];
  declare orgId: string;
  declare name: string;
  declare address: Record<string, unknown> | null;
  declare timezone: string;
  declare contact: Record<string, unknown> | null;
  declare settings: Record<string, unknown>;
}
