import { BaseModel } from '../../../platform/db/base-model.ts';

/** A mail domain that an organization has proved, or is proving, to own. */
export class SsoDomain extends BaseModel {
  static override tableName = 'sso_domains';
  declare orgId: string;
  declare domain: string;
  declare status: 'pending' | 'verified';
  /** What the TXT record has to hold. */
  declare token: string;
  declare verifiedAt: Date | null;
  /** Since when the daily check does not find the record of a verified domain. */
  declare failingSince: Date | null;
  declare createdBy: string | null;
}
