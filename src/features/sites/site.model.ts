import { BaseModel } from '../../platform/db/base-model.ts';

export class Site extends BaseModel {
  static override tableName = 'sites';
  static override jsonAttributes = ['address', 'contact', 'settings'];
  declare orgId: string;
  declare name: string;
  declare address: unknown;
  declare timezone: string;
  declare contact: unknown;
  declare settings: Record<string, unknown>;
}
