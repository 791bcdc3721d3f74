import { BaseModel } from '../../../platform/db/base-model.ts';

/** A mail domain that an organization has proved, or is proving, to own. */
export class SsoDomain extends BaseModel {
  static override tableName = 'sso_domains';
  declare orgId: string;
  declare domain: string;
  declare status: 'pending' | 'verified';
  declare token: string;
  declare verifiedAt: Date | null;
  declare createdBy: string | null;
}
