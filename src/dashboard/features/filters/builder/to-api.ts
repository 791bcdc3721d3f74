import { z } from 'zod';
import type { ConditionGroup } from '../../../api/index.ts';
import type { Conditions } from './conditions.ts';

const AsSent = z.custom<ConditionGroup>();
/** The types of routes cannot express that a value may be anything, so this is for the compiler only. */
export const toApi = (conditions: Conditions): ConditionGroup => AsSent.parse(conditions);
