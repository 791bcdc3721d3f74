import { describeAskedRoutes } from '../../contract/asked-routes.ts';
import { everyOne } from '../../contract/row-kinds.ts';

describeAskedRoutes('every route', everyOne);
