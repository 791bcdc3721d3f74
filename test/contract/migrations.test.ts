import { readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { expect } from 'chai';
import { MIGRATIONS_DIR, isOnline, onlineStatements } from '../../src/platform/db/migrations.ts';
import { BIG_TABLES, breachesOf } from './migration-rules.ts';

/** The last file of the baseline. Its files fill an empty database, at which no fleet works. */
const LAST_OF_BASELINE = '0020';

const files = readdirSync(MIGRATIONS_DIR)
  .filter((name) => /^\d{4}_\w+\.sql$/.test(name))
  .map((name) => ({ name, sql: readFileSync(path.join(MIGRATIONS_DIR, name), 'utf8') }));

describe('the migrations', () => {
  it('have numbers of their own', () => {
    const numbers = files.map(({ name }) => name.slice(0, 4));
    expect(new Set(numbers).size).to.equal(numbers.length);
  });

  for (const { name, sql } of files) {
    if (name.slice(0, 4) <= LAST_OF_BASELINE) continue;
    it(`let a fleet work on while they are applied: ${name}`, () => {
      expect(breachesOf(sql)).to.deep.equal([]);
      if (isOnline(sql)) expect(onlineStatements(name, sql)).not.to.deep.equal([]);
    });
  }

  describe('would be refused', () => {
    const REFUSED = [
      'create index later on devices (hostname)',
      'create unique index later on audit_logs (id)',
      'alter table sites add column code text not null',
      'alter table sites add code text, add column other text not null',
      'alter table devices alter column hostname type text',
      'alter table devices alter hostname set data type text',
      'alter table sites alter column name set not null',
      'alter table sites add foreign key (org_id) references organizations (id)',
      'alter table sites add constraint c foreign key (org_id) references organizations (id) on delete cascade',
      'alter table sites add constraint c check (length(name) > 0)',
      'alter table sites add column parent uuid references sites (id)',
      'alter table devices add column lower_name text generated always as (lower(hostname)) stored',
      'alter table sites drop column settings',
      'alter table sites rename column settings to options',
      'update devices set tags = tags',
      'delete from commands where true',
      'truncate sites',
    ];
    for (const statement of REFUSED) {
      it(statement, () => {
        expect(breachesOf(`${statement};`)).to.have.length.greaterThan(0);
      });
    }

    it('for each big table', () => {
      for (const table of BIG_TABLES) {
        expect(breachesOf(`create index later on ${table} (x)`), table).to.have.length(1);
      }
    });
  });

  describe('may', () => {
    const ALLOWED = [
      'create index concurrently if not exists later on devices (hostname)',
      'create index later on saved_filters (name)',
      "alter table sites add column code text not null default ''",
      'alter table sites add column code text, add column number integer not null default 1 check (number > 0)',
      'alter table sites add constraint c foreign key (org_id) references organizations (id) not valid',
      'alter table sites validate constraint c',
      'create table things (id uuid primary key, org_id uuid not null references organizations (id)); alter table things add foreign key (id) references sites (id)',
      '-- drop column is only spoken of here\nselect 1',
      'create function f() returns void language sql as $$ update devices set tags = tags; $$',
    ];
    for (const statement of ALLOWED) {
      it(statement, () => {
        expect(breachesOf(`${statement};`)).to.deep.equal([]);
      });
    }
  });
});
