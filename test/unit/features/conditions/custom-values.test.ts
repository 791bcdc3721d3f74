import { expect } from 'chai';
import knex from 'knex';
import type { CustomKind, MatchableDevice } from '../../../../src/features/conditions/field.ts';
import {
  customKey,
  decommissionedDevices,
  fieldNamed,
  visibleDevices,
} from '../../../../src/features/conditions/fields.ts';
import type { TenantScope } from '../../../../src/platform/db/tenant-scope.ts';
import type { Tx } from '../../../../src/platform/db/transaction.ts';

const MINE: TenantScope = {
  scope: 'organization',
  userId: null,
  partnerId: null,
  orgAccess: 'listed',
  orgIds: [],
};

describe('the value of a custom field', () => {
  const valueOf = (kind: CustomKind | undefined, stored: unknown, key = 'x') => {
    const kinds = new Map(kind === undefined ? [] : [[key, kind]]);
    const customFields = stored === undefined ? {} : { [key]: stored };
    return fieldNamed(`custom.${key}`, kinds)?.value({ customFields } as unknown as MatchableDevice);
  };

  it('is as text what Postgres makes of the JSON: numbers in full, without an exponent', () => {
    for (const [stored, text] of [
      ['a', 'a'],
      ['', ''],
      [true, 'true'],
      [false, 'false'],
      [0, '0'],
      [5, '5'],
      [-12.5, '-12.5'],
      [1e21, `1${'0'.repeat(21)}`],
      [1.5e22, `15${'0'.repeat(21)}`],
      [-1.25e100, `-125${'0'.repeat(98)}`],
      [123_456_789_012_345_680_000, '123456789012345680000'],
      [0.000001, '0.000001'],
      [1e-7, '0.0000001'],
      [-1.25e-7, '-0.000000125'],
      [1e-10, '0.0000000001'],
      [12.3e-12, '0.0000000000123'],
    ] as const) {
      expect(valueOf('string', stored), JSON.stringify(stored)).to.equal(text);
      expect(valueOf(undefined, stored), `${JSON.stringify(stored)}, not defined`).to.equal(text);
    }
    for (const stored of [null, {}, ['a'], undefined]) {
      expect(valueOf('string', stored), JSON.stringify(stored)).to.equal(null);
    }
  });

  it('is missing where what is stored has another type', () => {
    const stored = ['a', 5, true, null, { a: 1 }, ['a'], undefined];
    const of = (kind: CustomKind) => stored.map((one) => valueOf(kind, one));
    expect(of('number')).to.deep.equal([null, 5, null, null, null, null, null]);
    expect(of('boolean')).to.deep.equal([null, null, 'true', null, null, null, null]);
    expect(of('date')).to.deep.equal([null, null, null, null, null, null, null]);
    expect(of('list')).to.deep.equal([null, null, null, null, null, ['a'], null]);
    expect(valueOf('boolean', false)).to.equal('false');
  });

  it('is of a day its first moment, and of a time that moment', () => {
    expect(valueOf('date', '2026-01-31')).to.equal(Date.UTC(2026, 0, 31));
    expect(valueOf('date', '2026-01-31T08:00:00+02:00')).to.equal(Date.UTC(2026, 0, 31, 6));
    expect(valueOf('date', '2026-02-30')).to.equal(null);
  });

  it('is of a list its texts', () => {
    expect(valueOf('list', ['a', 1, null, ['b'], 'c'])).to.deep.equal(['a', 'c']);
    expect(valueOf('list', [])).to.deep.equal([]);
  });

  it('is not what every object has', () => {
    for (const key of ['constructor', 'toString', '__proto__']) {
      expect(valueOf('string', undefined, key), key).to.equal(null);
    }
  });

  it('has a key of 1 to 255 characters behind its prefix', () => {
    expect(customKey('custom.a.b')).to.equal('a.b');
    expect(customKey(`custom.${'k'.repeat(255)}`)).to.equal('k'.repeat(255));
    for (const name of ['custom.', `custom.${'k'.repeat(256)}`, 'Custom.a', 'hostname', 'acustom.a']) {
      expect(customKey(name), name).to.equal(undefined);
    }
    expect(fieldNamed('custom.', new Map())).to.equal(undefined);
  });
});

describe('the devices that conditions are evaluated on', () => {
  const tx = knex({ client: 'pg' }) as unknown as Tx;
  const JOINED =
    'select * from "devices" as "d" left join device_presence p on p.device_id = d.id and p.org_id = d.org_id where ';

  it('are those of the tenant, with those that are decommissioned apart', () => {
    const written = (query: ReturnType<typeof visibleDevices>) => {
      const { sql, bindings } = query.toSQL().toNative();
      return [sql, ...bindings];
    };
    const mine = `${JOINED}d.org_id = any((select app_org_ids())::uuid[]) and "d"."condition"`;
    expect(written(visibleDevices(tx, MINE))).to.deep.equal([`${mine} <> $1`, 'decommissioned']);
    expect(written(decommissionedDevices(tx, MINE))).to.deep.equal([`${mine} = $1`, 'decommissioned']);
    expect(written(visibleDevices(tx, { ...MINE, scope: 'system' }))[0]).to.equal(
      `${JOINED}true and "d"."condition" <> $1`,
    );
  });
});
