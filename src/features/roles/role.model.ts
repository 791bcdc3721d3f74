import { BaseModel } from '../../platform/db/base-model.ts';
import type { Scope } from '../../platform/db/tenant-scope.ts';

export class Role extends BaseModel {
  static override tableName = 'roles';
  declare scope: Scope;
  declare partnerId: string | null;
  declare orgId: string | null;
  declare name: string;
  declare description: string | null;
  declare permissions: string[];
  declare isSystem: boolean;
}
