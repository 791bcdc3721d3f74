import type { RelationMappings } from 'objection';
import type { z } from 'zod';
import { BaseModel } from '../../platform/db/base-model.ts';
import { Partner } from '../partners/index.ts';
import type { Organization as OrganizationSchema } from './organization.schema.ts';

type Fields = z.output<typeof OrganizationSchema>;

export class Organization extends BaseModel {
  static override tableName = 'organizations';
  static override jsonAttributes = ['settings', 'ssoConfig', 'billingContact'];
  declare partnerId: string;
  declare name: string;
  declare slug: string;
  declare type: Fields['type'];
  declare status: Fields['status'];
  declare maxDevices: number | null;
  declare settings: Record<string, unknown>;
  declare ssoConfig: Record<string, unknown>;
  declare contractStart: Date | null;
  declare contractEnd: Date | null;
  declare billingContact: unknown;
  /** Since when it is kept which of its devices were in planned maintenance. */
  declare maintenanceRecordedSince: Date;
  declare deletedAt: Date | null;
  declare partner?: Partner;

  static override relationMappings: RelationMappings = {
    partner: {
      relation: BaseModel.BelongsToOneRelation,
      modelClass: Partner,
      join: { from: 'organizations.partner_id', to: 'partners.id' },
    },
  };
}
