import { expect } from 'chai';
import { listedDatabases } from '../../../../../src/agent/capabilities/databases/engine-port.ts';
import { DatabaseDetails, DatabaseInstance } from '../../../../../src/protocol/index.ts';

describe('the databases of a server, in what an agent sends', () => {
  const many = (count: number) => Array.from({ length: count }, (_, n) => ({ name: `d${n}`, sizeBytes: n }));

  it('are all of them if the server takes so many', () => {
    expect(listedDatabases(many(1000))).to.deep.equal({ databases: many(1000) });
  });

  it('are the first thousand of more, with their number, so that the rest of the message is not refused', () => {
    const { databases, databaseCount } = listedDatabases(many(1003));
    expect([databases.length, databaseCount]).to.deep.equal([1000, 1003]);
    const described = DatabaseInstance.pick({ databases: true, databaseCount: true });
    expect(described.parse({ databases, databaseCount })).to.deep.equal({ databases, databaseCount });
    const names = databases.map(({ name }) => name);
    const backedUp = DatabaseDetails.pick({ databases: true, databaseCount: true });
    expect(backedUp.parse({ databases: names, databaseCount })).to.deep.equal({
      databases: names,
      databaseCount,
    });
  });
});
