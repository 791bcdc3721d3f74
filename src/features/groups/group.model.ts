import { BaseModel } from '../../platform/db/base-model.ts';

export class Group extends BaseModel {
  static override tableName = 'device_groups';
  declare orgId: string;
  declare siteId: string | null;
  declare name: string;
  declare description: string | null;
  declare type: 'static' | 'dynamic';
  declare filterId: string | null;
  declare createdBy: string | null;
  /** No column: counted where a group is read to be shown. */
  declare deviceCount: number;
}
