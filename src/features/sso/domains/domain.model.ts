import { BaseModel } from '../../../platform/db/base-model.ts';

/** A mail domain of which an organization proves that it is the owner. */
export class SsoDomain extends BaseModel {
  static override tableName = 'sso_domains';
  declare orgId: string;
  declare domain: string;
  declare status: 'pending' | 'verified';
  /** The random part of the value that the TXT record must have. */
  declare token: string;
  declare verifiedAt: Date | null;
  /** The time since which the daily check has not found the record of a verified domain. */
  declare failingSince: Date | null;
  declare createdBy: string | null;
}
