import { Pipe } from './pipe.ts';
import type { Process, World } from './world.ts';

/** An error of the system, as the driver of Postgres passes it on. */
const systemError = (code: string, message: string) => Object.assign(new Error(message), { code });

/** An error that Postgres itself reports, by its SQLSTATE. */
export const postgresRefusal = (code: string, message: string) => Object.assign(new Error(message), { code });

/** How the database behaves for one server. */
interface Weather {
  isAway: boolean;
  /** Every statement takes about so much longer. */
  slowMs: number;
  /** The share of the statements whose connection is lost, before or after they took effect. */
  losesShare: number;
  /** Set while connections are dead without a sign: each statement fails after this time, and has no effect. */
  hangsMs: number;
}

const CALM: Weather = { isAway: false, slowMs: 0, losesShare: 0, hangsMs: 0 };

/**
 * Postgres as servers reach it: each statement is one transaction that takes effect at once, somewhere between its
 * beginning and its answer. What a server has sent takes effect even if the server dies.
 */
export class SimulatedDatabase {
  readonly #world: World;
  readonly #weather = new Map<string, Weather>();

  constructor(world: World) {
    this.#world = world;
  }

  setWeather(name: string, weather: Partial<Weather>): void {
    this.#weather.set(name, { ...CALM, ...weather });
  }

  /** @param work  what the statement does; what it throws is the answer */
  run<T>(owner: Process, work: () => T): Promise<T> {
    const random = this.#world.random('database');
    const { isAway, slowMs, losesShare, hangsMs } = this.#weather.get(owner.name) ?? CALM;
    const lossAt = random.next();
    const latency = () => random.between(0.3, 3) + (slowMs === 0 ? 0 : random.wait(slowMs));
    const way = (receiver: Process) =>
      new Pipe({ world: this.#world, receiver, isSilent: () => false, latency });
    return new Promise((resolve, reject) => {
      const answer = way(owner);
      if (isAway) {
        answer.send(() => reject(systemError('ECONNREFUSED', 'connect ECONNREFUSED')));
        return;
      }
      if (hangsMs > 0) {
        this.#world.after(hangsMs, owner, () => reject(systemError('ETIMEDOUT', 'read ETIMEDOUT')));
        return;
      }
      const lost = () => reject(systemError('ECONNRESET', 'Connection terminated unexpectedly'));
      way(this.#world.itself).send(() => {
        if (lossAt < losesShare / 2 || this.#weather.get(owner.name)?.isAway === true) {
          answer.send(lost);
          return;
        }
        let settle: () => void;
        try {
          const value = work();
          settle = () => resolve(value);
        } catch (error) {
          settle = () => reject(error instanceof Error ? error : new Error(String(error)));
        }
        // It took effect, and the server does not learn that.
        answer.send(lossAt < losesShare ? lost : settle);
      });
    });
  }
}
