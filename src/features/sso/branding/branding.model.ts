import { BaseModel } from '../../../platform/db/base-model.ts';

/** What the sign-in page shows of a partner (SPEC 2.14). */
export class PartnerLoginBranding extends BaseModel {
  static override tableName = 'partner_login_branding';
  static override idColumn = 'partner_id';
  static override hasOwnId = false;
  declare partnerId: string;
  /** An HTTPS URL, or a data: URI of an image that was checked. */
  declare logoUrl: string | null;
  /** `#rrggbb` in lower case. */
  declare accentColor: string | null;
  declare headline: string | null;
}
