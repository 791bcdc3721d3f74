import { AppError } from '../../platform/errors.ts';

/**
 * What conditions that are followed at once may weigh: of one person, and of a node, where the same ones count once. A
 * filter of a person weighs some ten, the largest that is taken 12,000; 100,000 take some 100 MB.
 */
const WEIGHT_OF_PERSON = 30_000;
const WEIGHT_OF_NODE = 100_000;

/** Adds up the conditions that live filters of a node follow. */
export class FollowedWeight {
  readonly #personMax: number;
  readonly #nodeMax: number;
  readonly #ofPerson = new Map<string, number>();
  #weight = 0;

  constructor({ ofPerson = WEIGHT_OF_PERSON, ofNode = WEIGHT_OF_NODE } = {}) {
    this.#personMax = ofPerson;
    this.#nodeMax = ofNode;
  }

  /**
   * Throws `rate_limited` where it is too much for the person, and `unavailable` where it is for the node.
   * @param isNew  nobody follows these conditions yet
   */
  take(userId: string, weight: number, isNew: boolean): void {
    if (isNew && this.#weight + weight > this.#nodeMax) {
      throw new AppError(
        'unavailable',
        'This server follows as many conditions as it can. Use fewer or simpler ones, or try later.',
      );
    }
    const ofPerson = (this.#ofPerson.get(userId) ?? 0) + weight;
    if (ofPerson > this.#personMax) {
      throw new AppError(
        'rate_limited',
        `A person may have ${this.#personMax} conditions in live filters at once, and characters of regular expressions count as well.`,
      );
    }
    this.#ofPerson.set(userId, ofPerson);
    if (isNew) this.#weight += weight;
  }

  /** @param isLast  nobody follows these conditions any more */
  giveBack(userId: string, weight: number, isLast: boolean): void {
    const left = (this.#ofPerson.get(userId) ?? 0) - weight;
    if (left > 0) this.#ofPerson.set(userId, left);
    else this.#ofPerson.delete(userId);
    if (isLast) this.#weight -= weight;
  }
}
