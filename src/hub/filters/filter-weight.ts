import { AppError } from '../../platform/errors.ts';

/**
 * The most that conditions in live filters may weigh at the same time: per person, and per node, where identical ones
 * count once. A typical filter weighs about ten and the largest accepted one 12,000. A weight of 100,000 takes about
 * 100 MB.
 */
const WEIGHT_OF_PERSON = 30_000;
const WEIGHT_OF_NODE = 100_000;

/** Limits the weight of all conditions that live filters of this node evaluate. */
export class FilterWeight {
  readonly #personMax: number;
  readonly #nodeMax: number;
  readonly #ofPerson = new Map<string, number>();
  #weight = 0;

  constructor({ ofPerson = WEIGHT_OF_PERSON, ofNode = WEIGHT_OF_NODE } = {}) {
    this.#personMax = ofPerson;
    this.#nodeMax = ofNode;
  }

  /**
   * Throws `rate_limited` when the limit of the person is exceeded, and `unavailable` when that of the node is.
   * @param isNew  these conditions have no subscriber yet
   */
  reserve(userId: string, weight: number, isNew: boolean): void {
    if (isNew && this.#weight + weight > this.#nodeMax) {
      throw new AppError(
        'unavailable',
        'This server already evaluates as many conditions as it can. Use fewer or simpler ones, or try again later.',
      );
    }
    const ofPerson = (this.#ofPerson.get(userId) ?? 0) + weight;
    if (ofPerson > this.#personMax) {
      throw new AppError(
        'rate_limited',
        `A person may use ${this.#personMax} conditions in live filters at once, including characters of regular expressions.`,
      );
    }
    this.#ofPerson.set(userId, ofPerson);
    if (isNew) this.#weight += weight;
  }

  /** @param isLast  these conditions have no other subscriber */
  release(userId: string, weight: number, isLast: boolean): void {
    const left = (this.#ofPerson.get(userId) ?? 0) - weight;
    if (left > 0) this.#ofPerson.set(userId, left);
    else this.#ofPerson.delete(userId);
    if (isLast) this.#weight -= weight;
  }
}
