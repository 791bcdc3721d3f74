import { BaseModel } from '../../../platform/db/base-model.ts';

export class User extends BaseModel {
  static override tableName = 'users';
  declare email: string;
  declare name: string;
  declare passwordHash: string | null;
  declare status: 'active' | 'invited' | 'disabled';
  declare mfaEnabled: boolean;
  /** Null until somebody has proved that they read the mail of this address. */
  declare emailVerifiedAt: Date | null;
  declare lastLoginAt: Date | null;
}

/** The roles of every deployment, created by migration 0003 with these ids. */
export const SYSTEM_ROLES = {
  systemAdmin: '01900000-0000-7000-8000-000000000001',
  partnerAdmin: '01900000-0000-7000-8000-000000000002',
  partnerTechnician: '01900000-0000-7000-8000-000000000003',
  partnerViewer: '01900000-0000-7000-8000-000000000004',
  organizationAdmin: '01900000-0000-7000-8000-000000000005',
  organizationTechnician: '01900000-0000-7000-8000-000000000006',
  organizationViewer: '01900000-0000-7000-8000-000000000007',
} as const;
