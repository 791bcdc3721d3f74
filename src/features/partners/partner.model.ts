import type { z } from 'zod';
import { BaseModel } from '../../platform/db/base-model.ts';
import type { Partner as PartnerSchema } from './partner.schema.ts';

type Fields = z.output<typeof PartnerSchema>;

export class Partner extends BaseModel {
  static override tableName = 'partners';
  static override jsonAttributes = ['settings', 'ssoConfig'];
  declare name: string;
  declare slug: string;
  declare type: Fields['type'];
  declare plan: Fields['plan'];
  declare status: Fields['status'];
  declare maxOrganizations: number | null;
  declare maxDevices: number | null;
  declare settings: Record<string, unknown>;
  declare ssoConfig: Record<string, unknown>;
  declare billingEmail: string | null;
  declare deletedAt: Date | null;
}
