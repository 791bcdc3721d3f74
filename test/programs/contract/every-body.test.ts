import { describeBadInput } from '../../contract/asked-bodies.ts';
import { everyOne } from '../../contract/row-kinds.ts';

describeBadInput('bad input anywhere', everyOne);
