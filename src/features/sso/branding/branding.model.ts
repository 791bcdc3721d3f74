import { BaseModel } from '../../../platform/db/base-model.ts';

/** The branding of a partner on the login page (SPEC 2.14). */
export class PartnerLoginBranding extends BaseModel {
  static override tableName = 'partner_login_branding';
  static override idColumn = 'partner_id';
  static override hasOwnId = false;
  declare partnerId: string;
  /** An https:// URL, or a data: URI whose image was checked. */
  declare logoUrl: string | null;
  /** `#rrggbb` in lower case. */
  declare accentColor: string | null;
  declare headline: string | null;
}
