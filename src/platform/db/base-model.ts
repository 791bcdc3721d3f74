import {
  Model,
  snakeCaseMappers,
  type ModelOptions,
  type Pojo,
  type QueryContext,
  type PartialModelObject,
  type RelationMapping,
} from 'objection';
import { clock } from '../../clock.ts';
import { newId } from '../ids.ts';
import type { Context } from '../context.ts';

const columnNames = snakeCaseMappers();

/**
 * Base of every model. It is never bound to a pool (no `Model.knex()`): a query that is not given a transaction
 * throws instead of running without a tenant.
 */
export class BaseModel extends Model {
  declare id: string;
  declare createdAt: Date;
  declare updatedAt: Date;

  /** Set to false on tables without `updated_at`. */
  static hasUpdatedAt = true;
  /** Set to false on tables whose key is not an id that the application makes. */
  static hasOwnId = true;

  static override columnNameMappers = columnNames;
  static override useLimitInFirst = true;

  override $beforeInsert(_context: QueryContext): void {
    if ((this.constructor as typeof BaseModel).hasOwnId) this.id ??= newId();
  }

  override $beforeUpdate(_options: ModelOptions, _context: QueryContext): void {
    if ((this.constructor as typeof BaseModel).hasUpdatedAt) this.updatedAt = clock.date();
  }

  /**
   * `withGraphJoined` would ask the database for the columns of each table, once a model and process. Relations are
   * fetched (`withGraphFetched`) or joined with the columns named (`joinRelated`): docs/decisions/objection.md.
   */
  static override fetchTableMetadata(): Promise<never> {
    return Promise.reject(
      new Error(`${this.name}: use withGraphFetched or joinRelated, not withGraphJoined`),
    );
  }

  /** Columns under their names in code. The driver has parsed JSON already: Objection, which would parse each text in it
   * once more, must not make a number of the text "123". */
  override $parseDatabaseJson(json: Pojo): Pojo {
    return columnNames.parse(json);
  }

  /** As answers carry it: times in ISO 8601. */
  override $formatJson(json: Pojo): Pojo {
    const formatted = super.$formatJson(json);
    for (const [key, value] of Object.entries(formatted)) {
      if (value instanceof Date) formatted[key] = value.toISOString();
    }
    return formatted;
  }
}

/** Changes a row, returns the new row, and records the change for the audit entry. */
export async function patchRecorded<M extends BaseModel>(
  ctx: Pick<Context, 'tx' | 'recordChange'>,
  row: M,
  changes: PartialModelObject<M>,
): Promise<M> {
  const before = Object.assign({}, row);
  const updated = await row.$query(ctx.tx).patchAndFetch(changes);
  ctx.recordChange(before, updated);
  return updated as M;
}

/** The relation of a foreign key to the row that it names, within the organization. */
export const belongsTo = (
  modelClass: typeof BaseModel,
  table: string,
  column: string,
): RelationMapping<Model> => ({
  relation: Model.BelongsToOneRelation,
  modelClass,
  join: {
    from: [`${table}.org_id`, `${table}.${column}`],
    to: [`${modelClass.tableName}.org_id`, `${modelClass.tableName}.id`],
  },
});
