import { BaseModel } from '../../../platform/db/base-model.ts';

/** A code that the dashboard exchanges for the tokens of a session that a sign-in has just opened. */
export class ExchangeCode extends BaseModel {
  static override tableName = 'sso_exchange_codes';
  static override idColumn = 'code_hash';
  static override hasOwnId = false;
  static override hasUpdatedAt = false;
  declare codeHash: string;
  declare sessionId: string;
  /** Sealed (`exchangeTokenContext`). */
  declare refreshToken: string;
  /** Of the browser that has come back from the identity provider. Null: a link for any browser. */
  declare browserHash: string | null;
  declare expiresAt: Date;
}
